// How many clusters are in each phase, as a bar of shares. Everything here is pure.
import type { Phase } from "./types";
import { signs, worstFirst } from "./words";

// Counts are numbers of clusters, or of an application on clusters, by phase.
export type Counts = ReadonlyMap<Phase, number>;

export interface Share {
  phase: Phase;
  count: number;
  // The part of the bar, in percent.
  percent: number;
}

// sharesOf returns the share of each phase that occurs, worst first. A share that is smaller than the
// least percent is widened to it, so that one failed cluster of a thousand can be seen, and the others
// give way in proportion.
export function sharesOf(counts: Counts, least = 4): Share[] {
  const present = worstFirst.flatMap((phase) => {
    const count = counts.get(phase) ?? 0;
    return count > 0 ? [{ phase, count }] : [];
  });
  const total = sum(present);
  const isSmall = ({ count }: { count: number }) => (100 * count) / total < least;
  const small = present.filter(isSmall);
  const rest = total - sum(small);
  return present.map((share) => ({ ...share, percent: isSmall(share) ? least : ((100 - least * small.length) * share.count) / rest }));
}

const sum = (of: { count: number }[]) => of.reduce((total, { count }) => total + count, 0);

// barOf returns a bar of shares as a CSS background.
export function barOf(shares: Share[]): string {
  let end = 0;
  const stops = shares.map(({ phase, percent }) => {
    const start = end;
    end += percent;
    return `var(--${phase}-strong) ${start.toFixed(2)}% ${end.toFixed(2)}%`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

const notReady = (shares: Share[]) => shares.filter(({ phase }) => phase !== "Ready");

// countsInWords returns the phases that are not Ready, worst first: "3 Failed, 20 Unknown".
export function countsInWords(shares: Share[]): string {
  return notReady(shares)
    .map(({ phase, count }) => `${count} ${phase}`)
    .join(", ");
}

// countsInSigns returns the phases that are not Ready, each with its sign.
export function countsInSigns(shares: Share[]): { phase: Phase; text: string }[] {
  return notReady(shares).map(({ phase, count }) => ({ phase, text: `${signs[phase]} ${count}` }));
}

// addCounts adds counts to a total.
export function addCounts(total: Map<Phase, number>, counts: Counts): Map<Phase, number> {
  for (const [phase, count] of counts) total.set(phase, (total.get(phase) ?? 0) + count);
  return total;
}
