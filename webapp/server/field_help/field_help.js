// Help buttons are named after their fields and are no stops of Tab: F1 in a field leads to its help, Escape back.
// Nor are the crosses of rows: who has no mouse removes a row among its details.
const HELP = "[data-testid=stTooltipHoverTarget] > button[aria-label^=Help]";
const CROSS = "[class*=st-key-submit-]:is([class*='-remove '], [class$='-remove']) button";
const ELEMENT = "[data-testid=stElementContainer]";

function tend() {
  for (const button of document.querySelectorAll(CROSS)) button.tabIndex = -1;
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

export default function watch() {
  let from = null;
  let asked = 0;
  const lookLater = () => (asked ||= requestAnimationFrame(() => ((asked = 0), tend())));
  const press = (event) => {
    const field = document.activeElement;
    if (event.key === "Escape" && from && field?.matches(HELP)) from.focus();
    if (event.key !== "F1" || !field?.matches("input, textarea")) return;
    const help = helpOf(field);
    if (!help) return;
    event.preventDefault();
    from = field;
    help.focus();
  };
  const observer = new MutationObserver(lookLater);
  observer.observe(document.body, { childList: true, subtree: true });
  document.addEventListener("keydown", press);
  tend();
  return () => {
    observer.disconnect();
    document.removeEventListener("keydown", press);
  };
}
