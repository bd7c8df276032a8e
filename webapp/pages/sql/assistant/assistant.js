// Colours the words of the SQL field and completes names of tables and columns in it. The field stays the browser's own:
// without this script it is typed into all the same.
const FIELD = ".st-key-sql-text textarea";
const TOKEN = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\b\d+(?:\.\d+)?\b)|([A-Za-z_]\w*)/g;
const KEYWORDS = new Set(
  ("all and any array as asc between by case cast count cross cte date desc describe distinct else end except exclude " +
    "exists explain false filter first from full group having ilike in inner intersect interval is join last lateral " +
    "left like limit not null nulls offset on or order outer over partition pivot pragma qualify recursive replace right " +
    "sample select semi show struct summarize table then timestamp true union unnest unpivot using values when where " +
    "window with within").split(" "),
);
const MOST = 9;
const LEAST_LETTERS = 2;

const LOOK_EVERY_MS = 100;

export default function assist({ data }) {
  // a browser that sees the page for the first time draws the field later than it runs this
  let leave = attach(data.tables);
  const waiting = leave ? 0 : setInterval(() => (leave = attach(data.tables)) && clearInterval(waiting), LOOK_EVERY_MS);
  return () => {
    clearInterval(waiting);
    leave?.();
  };
}

function attach(tables) {
  const field = document.querySelector(FIELD);
  if (!field) return undefined;
  const state = { field, tables, items: [], chosen: 0 };
  state.paint = piece("pre", "sql-paint");
  state.list = piece("ul", "sql-names");
  state.list.setAttribute("role", "listbox");
  state.list.setAttribute("aria-label", "Names of tables and columns");
  state.list.id = "sql-names";
  field.after(state.paint);
  document.body.append(state.list);
  field.classList.add("sql-painted");
  field.spellcheck = false;
  const stop = new AbortController();
  const listen = (name, act, capture = false) => field.addEventListener(name, act, { signal: stop.signal, capture });
  listen("input", () => { draw(state); offer(state, false); });
  listen("scroll", () => follow(state));
  listen("blur", () => close(state));
  listen("click", () => close(state));
  listen("keydown", (event) => press(state, event), true);
  const size = new ResizeObserver(() => draw(state));
  size.observe(field);
  const looking = setInterval(() => field.value !== state.drawn && draw(state), 200);
  draw(state);
  return () => {
    stop.abort();
    size.disconnect();
    clearInterval(looking);
    state.paint.remove();
    state.list.remove();
    field.classList.remove("sql-painted");
  };
}

function piece(tag, name) {
  const made = document.createElement(tag);
  made.className = name;
  if (tag === "pre") made.setAttribute("aria-hidden", "true");
  else made.hidden = true;
  return made;
}

function draw(state) {
  const text = (state.drawn = state.field.value);
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(TOKEN)) {
    parts.push(text.slice(from, found.index));
    parts.push(coloured(state, found));
    from = found.index + found[0].length;
  }
  parts.push(text.slice(from) + "\n");
  state.paint.replaceChildren(...parts);
  follow(state);
}

function coloured(state, [text, comment, string, name, number, word]) {
  const kind = comment ? "comment" : string ? "string" : number ? "number"
    : word && KEYWORDS.has(word.toLowerCase()) ? "keyword"
    : (word || name) && state.tables[word ?? name.slice(1, -1)] ? "table" : "";
  if (!kind) return text;
  const span = piece("span", `sql-${kind}`);
  span.hidden = false;
  span.textContent = text;
  return span;
}

function follow({ field, paint }) {
  const own = getComputedStyle(field);
  for (const name of ["font", "letterSpacing", "lineHeight", "padding", "borderWidth", "tabSize"]) paint.style[name] = own[name];
  Object.assign(paint.style, {
    left: `${field.offsetLeft}px`, top: `${field.offsetTop}px`,
    width: `${field.clientWidth}px`, height: `${field.clientHeight}px`,
  });
  paint.scrollTop = field.scrollTop;
  paint.scrollLeft = field.scrollLeft;
}

function offer(state, asked) {
  const { field, tables } = state;
  const before = field.value.slice(0, field.selectionStart);
  const [, of, start] = /(?:(\w+)\.)?(\w*)$/.exec(before);
  state.start = start;
  if (!asked && !of && start.length < LEAST_LETTERS) return close(state);
  const used = Object.keys(tables).filter((table) => new RegExp(`\\b${table}\\b`).test(field.value));
  const columns = (names) => names.flatMap((table) => tables[table].map((column) => [column, table]));
  const pool = of && tables[of] ? columns([of])
    : [...columns(used.length ? used : Object.keys(tables)), ...Object.keys(tables).map((table) => [table, "table"])];
  const small = start.toLowerCase();
  const seen = new Set();
  state.items = pool
    .filter(([name]) => name.toLowerCase().startsWith(small) && name !== start && !seen.has(name) && seen.add(name))
    .slice(0, MOST);
  state.chosen = 0;
  if (state.items.length) show(state, before);
  else close(state);
}

function show(state, before) {
  const { list, items, field } = state;
  list.replaceChildren(...items.map(([name, of], place) => {
    const row = document.createElement("li");
    row.id = `sql-name-${place}`;
    row.setAttribute("role", "option");
    row.append(name, " ", Object.assign(document.createElement("small"), { textContent: of }));
    row.addEventListener("mousedown", (event) => { event.preventDefault(); take(state, place); });
    return row;
  }));
  const { x, y } = caret(state, before);
  Object.assign(list.style, { left: `${x}px`, top: `${y}px` });
  list.hidden = false;
  field.setAttribute("aria-controls", list.id);
  mark(state);
}

function caret({ paint, field }, before) {
  const range = document.createRange();
  let left = before.length;
  const walk = document.createTreeWalker(paint, NodeFilter.SHOW_TEXT);
  let node = walk.nextNode();
  while (node && node.length < left) { left -= node.length; node = walk.nextNode(); }
  if (!node) return field.getBoundingClientRect();
  range.setStart(node, left);
  const box = range.getBoundingClientRect();
  return { x: box.left, y: box.bottom + 2 };
}

function mark({ list, field, chosen }) {
  [...list.children].forEach((row, place) => row.setAttribute("aria-selected", String(place === chosen)));
  field.setAttribute("aria-activedescendant", `sql-name-${chosen}`);
}

function close({ list, field }) {
  list.hidden = true;
  field.removeAttribute("aria-activedescendant");
  field.removeAttribute("aria-controls");
}

function take(state, place) {
  const { field, items, start } = state;
  field.setSelectionRange(field.selectionStart - start.length, field.selectionEnd);
  document.execCommand("insertText", false, items[place][0]); // the page hears of it, and it can be undone
  close(state);
}

function press(state, event) {
  if (event.ctrlKey && event.code === "Space") { event.preventDefault(); offer(state, true); return; }
  if (state.list.hidden || event.ctrlKey || event.metaKey) return;
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in steps) {
    state.chosen = (state.chosen + steps[event.key] + state.items.length) % state.items.length;
    mark(state);
  } else if (event.key === "Enter" || event.key === "Tab") take(state, state.chosen);
  else if (event.key === "Escape") close(state);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
