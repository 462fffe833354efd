import { useMemo } from "preact/hooks";
import type { Connection } from "./server";
import type { Hub } from "./types";
import { age, upperFirst } from "./words";

interface Props {
  hub: Hub;
  connection: Connection;
  heard: number;
  now: number;
}

// Problem is why the page may be out of date or incomplete. While its words change, such as an age in
// them, its key stays.
interface Problem {
  key: string;
  words: string;
}

// Banner says why the page may be out of date or incomplete. A screen reader hears of a problem once,
// and not again each time that an age in its words changes.
export function Banner({ hub, connection, heard, now }: Props) {
  const found = problems(hub, connection, heard, now);
  const alert = useMemo(() => found.map((problem) => problem.words).join(" "), [found.map((problem) => problem.key).join()]);
  return (
    <div class="banners">
      {found.map((problem) => (
        <p class="banner" key={problem.key}>
          <strong aria-hidden="true">!</strong> {problem.words}
        </p>
      ))}
      <p class="hidden" role="alert">
        {alert}
      </p>
    </div>
  );
}

function problems(hub: Hub, connection: Connection, heard: number, now: number): Problem[] {
  if (connection === "lost") {
    const since = new Date(heard);
    const words = `The data is stale since ${clock(since)} (${age(since.toISOString(), now)}): kubectl appsvc ui does not answer. The page connects again by itself when it does. If you started the command again, open its new URL.`;
    return [{ key: "server", words }];
  }
  if (hub.problem) return [{ key: hub.problem, words: `The data is stale since ${clock(new Date(hub.lastAnswer))} (${age(hub.lastAnswer, now)}): ${hub.problem}` }];
  const found = hub.kinds.flatMap((kind) => (kind.problem ? [{ key: kind.problem, words: kind.problem }] : []));
  return hub.operatorProblem ? [{ key: "operator", words: upperFirst(hub.operatorProblem) }, ...found] : found;
}

export function clock(time: Date): string {
  return time.toLocaleTimeString(undefined, { hour12: false });
}
