// Help buttons are named after their fields and are no stops of Tab: F1 in a field leads to its help, Escape back.
// Nor are the details of a row, which F2 opens in its fields, its cross, as a row is removed among its details too, and
// the clearing of a choice, which Escape does in its field.
const HELP = "[data-testid=stTooltipHoverTarget] > button[aria-label^=Help]";
const CROSS = "[class*=st-key-submit-]:is([class*='-remove '], [class$='-remove']) button";
const CLEAR = "[data-testid=stSelectbox] button[aria-label='Clear value']";
const DETAILS = "[class*=st-key-submit-][class*=-details] [data-testid=stPopoverButton]";
const FIRST_DETAIL = "[data-testid=stPopoverBody] :is(input, textarea)";
const ROW = /st-key-submit-\d+-(?:arms|workloads|loads)-\d+-/;
const ELEMENT = "[data-testid=stElementContainer]";

function tend() {
  for (const button of document.querySelectorAll(`${CROSS}, ${CLEAR}, ${DETAILS}`)) button.tabIndex = -1;
  for (const button of document.querySelectorAll(DETAILS)) button.setAttribute("aria-keyshortcuts", "F2");
  for (const button of document.querySelectorAll(HELP)) {
    button.tabIndex = -1;
    const text = button.ariaLabel === "Help" && button.closest(ELEMENT)?.innerText.trim();
    if (text) button.ariaLabel = `Help for ${text}`;
  }
}

// The help of the field itself, or of the label above its column.
function helpOf(field) {
  const own = field.closest(ELEMENT)?.querySelector(HELP);
  const name = field.ariaLabel || field.labels?.[0]?.innerText.trim();
  for (let around = field.parentElement; !own && name && around; around = around.parentElement) {
    const found = around.querySelector(`button[aria-label="${CSS.escape(`Help for ${name}`)}"]`);
    if (found) return found;
  }
  return own;
}

function detailsOf(field) {
  const row = ROW.exec(field.closest("[class*=st-key-submit-]")?.className);
  return row && document.querySelector(`[class*="${row[0]}details"] [data-testid=stPopoverButton]`);
}

export default function watch() {
  let from = null;
  let opens = false;
  let asked = 0;
  const look = () => {
    asked = 0;
    tend();
    const opener = document.activeElement;
    if (!from || !opener?.matches(DETAILS)) return;
    const next = opener.ariaExpanded === "true" ? document.querySelector(FIRST_DETAIL) : opens ? null : from;
    if (!next) return;
    opens = false;
    next.focus();
  };
  const lookLater = () => (asked ||= requestAnimationFrame(look));
  const forget = () => (from = null);
  const press = (event) => {
    const field = document.activeElement;
    if (event.key === "Escape" && from && field?.matches(HELP)) from.focus();
    if (!["F1", "F2"].includes(event.key) || !field?.matches("input, textarea")) return;
    const button = event.key === "F1" ? helpOf(field) : detailsOf(field);
    if (!button) return;
    event.preventDefault();
    from = field;
    opens = event.key === "F2";
    button.focus();
    if (opens) button.click();
  };
  const observer = new MutationObserver(lookLater);
  observer.observe(document.body, { childList: true, subtree: true });
  document.addEventListener("keydown", press);
  document.addEventListener("pointerdown", forget);
  document.addEventListener("focusin", lookLater);
  tend();
  return () => {
    observer.disconnect();
    document.removeEventListener("keydown", press);
    document.removeEventListener("pointerdown", forget);
    document.removeEventListener("focusin", lookLater);
  };
}
