import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { fragmentOf, renew, viewOf, type View } from "./link";
import { takeToken } from "./server";

// useView returns what the user has chosen to see, and a function that changes it. The address bar has
// it too, so the buttons for back and forward work. What is typed replaces the entry of the history:
// there is not one for each letter.
export function useView(): [View, (change: Partial<View>, isTyped?: boolean) => void] {
  const [view, setView] = useState(() => viewOf(location.hash));
  const latest = useRef(view);
  const show = useCallback((next: View) => setView((latest.current = next)), []);
  useEffect(() => {
    address(latest.current, "replaceState"); // without the values that were ignored
    const onNavigation = () => {
      // The URL of another start of the command is open in the same tab.
      if (/[#&]token=/.test(location.hash)) {
        takeToken();
        location.reload();
        return;
      }
      show(renew(latest.current, location.hash));
    };
    addEventListener("popstate", onNavigation);
    return () => removeEventListener("popstate", onNavigation);
  }, []);
  const change = useCallback((part: Partial<View>, isTyped = false) => {
    show({ ...latest.current, ...part });
    address(latest.current, isTyped ? "replaceState" : "pushState");
  }, []);
  return [view, change];
}

// address writes the view to the address bar.
function address(view: View, write: "pushState" | "replaceState") {
  const fragment = fragmentOf(view);
  if (fragment !== location.hash) history[write](null, "", location.pathname + fragment);
}
