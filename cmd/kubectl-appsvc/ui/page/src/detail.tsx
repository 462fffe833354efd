import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { clock } from "./banner";
import { Revisions } from "./changes";
import { Bar } from "./heads";
import { notPlacedInWords, type Fleet } from "./model";
import { readDetail } from "./server";
import { RolloutTimeline } from "./timeline";
import type { App, Detail, Stage } from "./types";
import { age, gates, inWords, signs } from "./words";

// Target is what the panel shows: an application, an application on a cluster, or a cluster.
export interface Target {
  app?: { namespace: string; name: string };
  cluster?: string;
}

interface Props {
  token: string;
  fleet: Fleet;
  target: Target;
  now: number;
  onClose: () => void;
}

// The detail is read again when its object changes, at most this often.
const readInterval = 2_000;

interface Reading {
  detail?: Detail;
  problem?: string;
}

// useDetail reads the detail of a target, again when the object changes. A change never ends a read:
// an object that changes all the time would never be shown.
function useDetail(token: string, target: Target, version: unknown): Reading {
  const [reading, setReading] = useState<Reading>({});
  const changed = useRef(() => {});
  useEffect(() => {
    const controller = new AbortController();
    let timer: number | undefined;
    let isReading = false;
    let isOld = false; // the object has changed since the read began
    const read = async () => {
      timer = undefined;
      isReading = true;
      isOld = false;
      try {
        const detail = await readDetail(token, target, controller.signal);
        setReading({ detail });
      } catch (error) {
        if (controller.signal.aborted) return;
        setReading((last) => ({ ...last, problem: (error as Error).message }));
      }
      isReading = false;
      timer = window.setTimeout(() => {
        timer = undefined;
        if (isOld) void read();
      }, readInterval);
    };
    changed.current = () => {
      isOld = true;
      if (!isReading && timer === undefined) void read();
    };
    setReading({});
    void read();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [token, target]);
  useEffect(() => changed.current(), [version]);
  return reading;
}

export function DetailPanel({ token, fleet, target, now, onClose }: Props) {
  const row = target.app && fleet.rows.get(`${target.app.namespace}/${target.app.name}`);
  const cluster = target.cluster === undefined ? undefined : fleet.clusters.get(target.cluster);
  const { detail, problem } = useDetail(token, target, row ?? cluster);
  const title = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => title.current?.focus(), [target]);
  const name = target.app ? `${target.app.namespace}/${target.app.name}` : `cluster ${target.cluster}`;
  return (
    <aside class="detail" aria-labelledby="detail-title" onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <div class="detail-head">
        <h2 id="detail-title" tabIndex={-1} ref={title}>
          {name}
          {target.app && target.cluster && <span class="on"> on {target.cluster}</span>}
        </h2>
        <button type="button" class="close" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </div>
      {row && <Summary app={row.app} cluster={target.cluster} now={now} />}
      {problem && <p class="problem">{problem}</p>}
      {detail?.message && <p class="message">{detail.message}</p>}
      {row && !target.cluster && !detail && <Stages app={row.app} now={now} />}
      {detail?.timeline && <RolloutTimeline timeline={detail.timeline} now={now} />}
      {detail ? <Body token={token} target={target} detail={detail} now={now} /> : !problem && <p class="muted">Reading…</p>}
    </aside>
  );
}

// Summary is what the matrix has already.
function Summary({ app, cluster, now }: { app: App; cluster: string | undefined; now: number }) {
  if (cluster === undefined) {
    return (
      <p class="summary">
        <Chip phase={app.phase} /> {app.reason && inWords(app.reason)} · {app.ready}/{app.clusters} clusters · {app.readyPods}/{app.pods} pods
      </p>
    );
  }
  const cell = app.cells.find((c) => c.cluster === cluster);
  if (!cell) return <p class="summary">{notPlacedInWords(app, cluster).long}</p>;
  return (
    <p class="summary">
      <Chip phase={cell.phase} /> {cell.reason && inWords(cell.reason)} {cell.since && `for ${age(cell.since, now)}`} · {cell.ready}/{cell.wanted} pods
      {cell.lastKnown && ` · last known: ${cell.lastKnown}`}
    </p>
  );
}

function Chip({ phase }: { phase: App["phase"] }) {
  return (
    <span class={`chip ${phase}`}>
      <span aria-hidden="true">{signs[phase]}</span> {phase}
    </span>
  );
}

// Stages shows what the matrix knows of a rollout, until its timeline is read, or if it cannot be read.
function Stages({ app, now }: { app: App; now: number }) {
  const { rollout } = app;
  if (!rollout?.stages) return null;
  return (
    <section>
      <h3>
        Rollout of revision {app.revision}: {inWords(rollout.phase ?? "")}
        {rollout.paused && ", paused"}
      </h3>
      <ol class="stages">
        {rollout.stages.map((stage) => (
          <li key={stage.name} class={`stage ${stage.phase}`} aria-current={isCurrent(stage) ? "step" : undefined}>
            <span class="line">
              <b>{stage.name}</b>
              <Bar done={stage.available} of={stage.clusters} label={`${stage.available} of ${stage.clusters} clusters are available with the revision`}>
                {stage.available}/{stage.clusters}
              </Bar>
            </span>
            <span class="gates">
              {gates(stage, now)}
              {stage.failed ? <span class="bad">; failed on {stage.failed}</span> : null}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

const isCurrent = (stage: Stage) => ["AwaitingApproval", "Progressing", "Soaking"].includes(stage.phase);

function Body({ token, target, detail, now }: { token: string; target: Target; detail: Detail; now: number }) {
  return (
    <>
      {detail.commands.length > 0 && (
        <section>
          <h3>Continue in a terminal</h3>
          {detail.commands.map((command) => (
            <CommandLine key={command.line} {...command} />
          ))}
        </section>
      )}
      {detail.facts.length > 0 && (
        <section>
          <h3>State</h3>
          <dl>
            {detail.facts.map((fact) => (
              <div key={fact.name + fact.value}>
                <dt>{fact.name}</dt>
                <dd>{fact.value}</dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      {target.app && !target.cluster && (detail.revisions || detail.revisionsProblem) && (
        <Revisions
          key={`${target.app.namespace}/${target.app.name}`}
          token={token}
          app={target.app}
          revisions={detail.revisions ?? []}
          problem={detail.revisionsProblem}
          now={now}
        />
      )}
      {detail.conditions.length > 0 && (
        <section>
          <h3>Conditions</h3>
          <ul class="conditions">
            {detail.conditions.map((condition) => (
              <li key={condition.type}>
                <b>
                  {condition.type}={condition.status}
                </b>{" "}
                {condition.reason} <span class="muted">for {age(condition.since, now)}</span>
                {condition.message && <p>{condition.message}</p>}
              </li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h3>Recent events</h3>
        {detail.eventsProblem && <p class="problem">{detail.eventsProblem}</p>}
        {!detail.eventsProblem && detail.events.length === 0 && <p class="muted">none</p>}
        <ul class="events">
          {detail.events.map((event, i) => (
            <li key={i} class={event.warning ? "warning" : ""}>
              <time dateTime={event.time} title={clock(new Date(event.time))}>
                {age(event.time, now)}
              </time>
              <b>
                {event.warning && "⚠ "}
                {event.reason}
                {event.count && event.count > 1 ? ` ×${event.count}` : ""}
              </b>
              <span>{event.message}</span>
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

function CommandLine({ purpose, line }: { purpose: string; line: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    navigator.clipboard.writeText(line).then(
      () => {
        setCopied(true);
        setTimeout(() => setCopied(false), 2_000);
      },
      () => {}, // the browser forbids it: the user can select the text
    );
  };
  return (
    <div class="command">
      <span>{purpose}</span>
      <code>
        {line.split(" ").map((word) => (
          <>
            <span class="word">{word}</span>{" "}
          </>
        ))}
      </code>
      <button type="button" onClick={copy} aria-label={`Copy the command: ${purpose}`}>
        {copied ? "copied" : "copy"}
      </button>
    </div>
  );
}
