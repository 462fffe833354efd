import { clock } from "./banner";
import { Bar } from "./heads";
import "./timeline.css";
import type { Moment, Step, Timeline } from "./types";
import { inWords } from "./words";

const marks: Record<Step["state"], [sign: string, words: string]> = {
  Done: ["✓", "done"],
  Current: ["●", "now"],
  Failed: ["✕", "failed"],
  Pending: ["○", "to come"],
  Skipped: ["–", "does not happen"],
};

// RolloutTimeline shows the steps of a rollout, which timeline.go computes.
export function RolloutTimeline({ timeline, now }: { timeline: Timeline; now: number }) {
  return (
    <section>
      <h3>
        Rollout of revision {timeline.revision}: {inWords(timeline.phase)}
      </h3>
      {timeline.image && <p class="image">{timeline.image}</p>}
      <ol class="timeline">
        {timeline.steps.map((step) => (
          <li key={step.name} class={step.state} aria-current={step.state === "Current" ? "step" : undefined}>
            <span class="mark" aria-hidden="true">
              {marks[step.state][0]}
            </span>
            <span class="hidden">{marks[step.state][1]}: </span>
            <span class="line">
              <b>{step.name}</b>
              {step.clusters && step.state !== "Skipped" && (
                <Bar
                  done={step.clusters.available}
                  of={step.clusters.all}
                  label={`${step.clusters.available} of ${step.clusters.all} clusters are available with the revision`}
                >
                  {step.clusters.available}/{step.clusters.all}
                </Bar>
              )}
            </span>
            {step.clusters?.failed ? <span class="bad">failed on {step.clusters.failed} clusters</span> : null}
            <ul class="moments">
              {step.moments?.map((moment, i) => (
                <li key={i} class={moment.state}>
                  <When moment={moment} now={now} />
                  <span class="text">
                    {moment.text}
                    {moment.until && <span class="left"> ({left(moment.until, now)})</span>}
                  </span>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ol>
      {timeline.notes?.map((note) => (
        <p key={note} class="muted">
          {note}
        </p>
      ))}
    </section>
  );
}

function When({ moment, now }: { moment: Moment; now: number }) {
  if (moment.time) return <time dateTime={moment.time}>{moment.state === "Current" ? `since ${shortTime(moment.time, now)}` : shortTime(moment.time, now)}</time>;
  const isPast = moment.state === "Done" || moment.state === "Failed" || moment.state === "Current";
  return <span class="notime">{isPast ? "time not known" : ""}</span>;
}

// shortTime returns a time of today as a clock shows it, and another one with its day.
export function shortTime(time: string, now: number): string {
  const at = new Date(time);
  if (at.toDateString() === new Date(now).toDateString()) return clock(at);
  return `${at.toLocaleDateString("en", { month: "short", day: "numeric" })} ${clock(at).slice(0, 5)}`;
}

// left returns how long it is until a time.
export function left(until: string, now: number): string {
  const seconds = Math.ceil((Date.parse(until) - now) / 1000);
  if (seconds <= 0) return "the time is over, and the next decision ends it";
  const parts = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), seconds % 60];
  const words = ["h", "min", "s"].map((unit, i) => ({ unit, value: parts[i]! })).filter(({ value }) => value > 0);
  return `${words.slice(0, 2).map(({ unit, value }) => `${value} ${unit}`).join(" ")} left`;
}
