import type { Connection } from "./server";
import type { Hub } from "./types";
import { age } from "./words";

interface Props {
  hub: Hub;
  connection: Connection;
  heard: number;
  now: number;
}

// Banner says why the page may be out of date or incomplete.
export function Banner({ hub, connection, heard, now }: Props) {
  return (
    <div class="banners" role="alert">
      {problems(hub, connection, heard, now).map((problem) => (
        <p class="banner" key={problem}>
          <strong aria-hidden="true">!</strong> {problem}
        </p>
      ))}
    </div>
  );
}

function problems(hub: Hub, connection: Connection, heard: number, now: number): string[] {
  if (connection === "lost") {
    const since = new Date(heard);
    return [`The data is stale since ${clock(since)} (${age(since.toISOString(), now)}): kubectl appsvc ui does not answer. The page connects again by itself when it does.`];
  }
  if (hub.problem) return [`The data is stale since ${clock(new Date(hub.lastAnswer))} (${age(hub.lastAnswer, now)}): ${hub.problem}`];
  return hub.kinds.flatMap((kind) => (kind.problem ? [kind.problem] : []));
}

export function clock(time: Date): string {
  return time.toLocaleTimeString(undefined, { hour12: false });
}
