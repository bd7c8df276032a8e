// Says when the page's colours are no longer those its charts were drawn in: the system's setting or the menu's choice.
const LOOK_MS = 300;
let asked = null;

export default function watch({ data, setTriggerValue }) {
  if (data.drawn === asked) asked = null;
  const look = () => {
    const shown = getComputedStyle(document.querySelector("[data-testid=stApp]")).colorScheme;
    if (shown === data.drawn) asked = null;
    else if (["light", "dark"].includes(shown) && shown !== asked) setTriggerValue("shown", (asked = shown));
  };
  const looking = setInterval(look, LOOK_MS);
  return () => clearInterval(looking);
}
