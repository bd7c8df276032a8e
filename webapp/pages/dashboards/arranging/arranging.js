// Two handles for each card while a dashboard is edited: one drags the card in front of another, one pulls its edge to half
// of the width or to the whole. Pointer events, so that a finger does what a mouse does.
const LEAST_PULL = 60;

export default function arrange({ data, setTriggerValue }) {
  const stop = new AbortController();
  const made = [];
  const send = (change) => setTriggerValue("arranged", change);
  const cards = () =>
    data.cards.map((card) => ({ ...card, shown: document.querySelector(`.st-key-card-${card.pin}`) })).filter(({ shown }) => shown);
  for (const card of cards()) {
    for (const [name, title, start] of [
      ["grip", `Drag “${card.title}” to another place`, drag],
      ["edge", `Pull “${card.title}” wider or narrower`, pull],
    ]) {
      const handle = document.createElement("span");
      handle.className = `arranging-${name}`;
      handle.title = title;
      handle.setAttribute("aria-hidden", "true"); // the buttons below the card are for keyboards and those who hear the page
      handle.addEventListener("pointerdown", (event) => start(event, card, handle, { cards, send }), { signal: stop.signal });
      card.shown.append(handle);
      made.push(handle);
    }
    card.shown.classList.add("arranging-card");
  }
  return () => {
    stop.abort();
    made.forEach((handle) => handle.remove());
    cards().forEach(({ shown }) => shown.classList.remove("arranging-card", "arranging-dragged"));
    mark(cards(), null);
  };
}

function follow(event, handle, onMove, onEnd) {
  event.preventDefault();
  handle.setPointerCapture(event.pointerId);
  const over = new AbortController();
  const end = (act) => (last) => { over.abort(); act(last); };
  handle.addEventListener("pointermove", onMove, { signal: over.signal });
  handle.addEventListener("pointerup", end(onEnd(true)), { signal: over.signal });
  handle.addEventListener("pointercancel", end(onEnd(false)), { signal: over.signal });
}

function drag(event, card, handle, { cards, send }) {
  card.shown.classList.add("arranging-dragged");
  const place = (at) => {
    const others = cards();
    const onto = others.findIndex(({ shown }) => holds(shown.getBoundingClientRect(), at));
    if (onto < 0 || others[onto].pin === card.pin) return null;
    const box = others[onto].shown.getBoundingClientRect();
    const isAfter = at.clientX > box.left + box.width / 2;
    return { shown: others[onto].shown, isAfter, before: others[onto + (isAfter ? 1 : 0)]?.pin ?? null };
  };
  follow(event, handle, (at) => mark(cards(), place(at)), (isDone) => (at) => {
    const found = isDone ? place(at) : null;
    mark(cards(), null);
    card.shown.classList.remove("arranging-dragged");
    if (found && found.before !== card.pin) send({ pin: card.pin, before: found.before });
  });
}

function pull(event, card, handle, { send }) {
  const from = event.clientX;
  const isPulled = (at) => Math.abs(at.clientX - from) >= LEAST_PULL;
  follow(event, handle, (at) => handle.classList.toggle("arranging-pulled", isPulled(at)), (isDone) => (at) => {
    handle.classList.remove("arranging-pulled");
    if (isDone && isPulled(at)) send({ pin: card.pin, isWide: at.clientX > from });
  });
}

function mark(cards, found) {
  for (const { shown } of cards) {
    shown.classList.toggle("arranging-before", found?.shown === shown && !found.isAfter);
    shown.classList.toggle("arranging-after", found?.shown === shown && found.isAfter);
  }
}

function holds(box, { clientX, clientY }) {
  return box.left <= clientX && clientX <= box.right && box.top <= clientY && clientY <= box.bottom;
}
