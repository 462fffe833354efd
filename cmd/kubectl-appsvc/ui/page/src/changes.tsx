import { useEffect, useState } from "preact/hooks";
import { readChanges } from "./server";
import { shortTime } from "./timeline";
import type { Changes, Revision } from "./types";

interface Props {
  token: string;
  app: { namespace: string; name: string };
  revisions: Revision[];
  problem: string | undefined;
  now: number;
}

// Revisions lists the revisions of an application, newest first. A click on one shows what it changed.
export function Revisions({ token, app, revisions, problem, now }: Props) {
  const [chosen, setChosen] = useState<number>();
  return (
    <section>
      <h3>Revisions</h3>
      {problem && <p class="problem">{problem}</p>}
      <ul class="revisions">
        {revisions.map((revision) => {
          const isOpen = chosen === revision.revision;
          return (
            <li key={revision.revision}>
              {revision.stored ? (
                <button type="button" class="revision" aria-expanded={isOpen} onClick={() => setChosen(isOpen ? undefined : revision.revision)}>
                  <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
                  <Row revision={revision} now={now} />
                </button>
              ) : (
                <div class="revision">
                  <span />
                  <Row revision={revision} now={now} />
                </div>
              )}
              {isOpen && <Diff token={token} app={app} revision={revision.revision} />}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Row({ revision, now }: { revision: Revision; now: number }) {
  const changed = revision.before ? `against ${revision.before}: ${listShort(revision.changed ?? [])}` : "the oldest that is stored";
  return (
    <>
      <b>{revision.revision}</b>
      <span class="image">{revision.image ?? "not stored"}</span>
      <span class="muted">{revision.time && shortTime(revision.time, now)}</span>
      <span class="about">
        on {revision.clusters} {revision.clusters === 1 ? "cluster" : "clusters"}
        {revision.states && ` · ${revision.states.join(", ")}`}
        {revision.stored && ` · ${changed}`}
      </span>
    </>
  );
}

const maxListed = 5;

function listShort(names: string[]): string {
  if (names.length === 0) return "no difference";
  const rest = names.length - maxListed;
  return names.slice(0, maxListed).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

// Diff shows what a revision changed. Revisions are immutable, so it is read once.
function Diff({ token, app, revision }: { token: string; app: Props["app"]; revision: number }) {
  const [changes, setChanges] = useState<Changes>();
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const controller = new AbortController();
    readChanges(token, app, revision, controller.signal).then(setChanges, (error: Error) => {
      if (!controller.signal.aborted) setProblem(error.message);
    });
    return () => controller.abort();
  }, [token, app.namespace, app.name, revision]);
  if (problem) return <p class="problem">{problem}</p>;
  if (!changes) return <p class="muted">Reading…</p>;
  if (!changes.diff) return <p class="muted">Nothing differs from the revision before.</p>;
  return (
    <div class="changes" role="group" aria-label={`What revision ${revision} changed`}>
      {changes.diff.replace(/\n$/, "").split("\n").map((line, i) => (
        <div key={i} class={kindOf(line)}>
          {line || " "}
        </div>
      ))}
      {changes.cut && <div class="place">… the diff is longer: see kubectl appsvc rollout history {app.name} --revision {revision}</div>}
    </div>
  );
}

// kindOf returns the class of a line of a unified diff.
export function kindOf(line: string): string {
  if (/^(---|\+\+\+|@@|#) ?/.test(line)) return "place";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return "same";
}
