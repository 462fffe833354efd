import type { Cell, Excluded, Phase, Stage } from "./types";

// The phases in the order in which they need attention.
export const worstFirst: Phase[] = ["Failed", "Unknown", "Detached", "Progressing", "Pending", "Removing", "Ready"];

// A sign for each phase, because colour is never the only one.
export const signs: Record<Phase, string> = {
  Failed: "✕",
  Unknown: "?",
  Detached: "⊘",
  Progressing: "↻",
  Pending: "…",
  Removing: "−",
  Ready: "✓",
};

const reasons: Record<string, string> = {
  AwaitingApproval: "awaits approval",
  ApplyFailed: "apply fails, retrying",
  ClusterDeleting: "cluster is deleted",
  ClusterDetached: "cluster has no Secret",
  ClusterNotReady: "cluster is not Ready",
  ClusterUnreachable: "unreachable",
  ClustersFailed: "clusters failed",
  ClustersUnknown: "clusters unknown",
  CrashLoopBackOff: "container crashes",
  CreateContainerConfigError: "config is missing",
  FailedMount: "volume fails to mount",
  FieldConflict: "fields are contested",
  HubBehind: "hub is behind",
  ImagePullBackOff: "image pull fails",
  InvalidOverride: "override is invalid",
  InvalidPlacement: "placement is invalid",
  LimitReached: "limit is reached",
  LoadBalancerPending: "awaits an address",
  NoClusters: "no cluster fits",
  NoSuchCluster: "no such cluster",
  NotNamed: "not in clusterNames",
  PodsNotReady: "pods are not ready",
  PodsRefused: "pods are refused",
  PodsUnschedulable: "pods fit on no node",
  RemovalNeedsApproval: "removal needs approval",
  RemovalPending: "removal waits",
  RevisionMissing: "revision is missing",
  RolledBack: "rolled back",
  RollingBack: "rolling back",
  RollingOut: "rolling out",
  RolloutFailed: "deadline exceeded",
  RolloutHalted: "rollout is halted",
  RolloutPaused: "rollout is paused",
  SecretMissing: "Secret is missing",
  SelectorMismatch: "other labels",
  TaintNotTolerated: "taint not tolerated",
  Unschedulable: "cluster is cordoned",
  WaitingForClusters: "waits for clusters",
};

// inWords returns a reason in words. A reason that is not known is split: SomeReason, some reason.
export function inWords(reason: string): string {
  return reasons[reason] ?? reason.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
}

// age returns how long ago a time is, as kubectl writes it: 12s, 5m, 3h, 2d.
export function age(since: string | undefined, now: number): string {
  if (!since) return "";
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

// duration returns seconds as people write them.
export function duration(seconds: number): string {
  if (seconds % 3600 === 0 && seconds > 0) return `${seconds / 3600} h`;
  if (seconds % 60 === 0 && seconds > 0) return `${seconds / 60} min`;
  return `${seconds} s`;
}

// secondLine returns the second line of a cell. That of an Unknown cell says how old its numbers
// are.
export function secondLine(cell: Cell, now: number): string {
  const words = cell.reason ? inWords(cell.reason) : "";
  if (cell.phase === "Unknown") return `${words || "not observed"} for ${age(cell.since, now)}`;
  return words;
}

// gates returns what a stage waits for, or waited for.
export function gates(stage: Stage, now: number): string {
  const since = stage.since ? `, ${age(stage.since, now)}` : "";
  const parts: string[] = [];
  if (stage.needsApproval) parts.push(stage.approved ? "approved" : "needs approval");
  if (stage.soakSeconds) parts.push(`soaks ${duration(stage.soakSeconds)}`);
  if (stage.promoted) parts.push("promoted");
  switch (stage.phase) {
    case "AwaitingApproval":
      return `awaits approval${since}`;
    case "Soaking":
      return [`soaking${since}`, ...parts].join("; ");
    case "Progressing":
      return [`in progress${since}`, ...parts].join("; ");
    case "Completed":
      return ["completed", ...parts].join("; ");
    case "Skipped":
      return "skipped: no cluster";
    default:
      return ["waits for the stages before", ...parts].join("; ");
  }
}

// excludedInWords returns a reason of the placement with its requirements.
export function excludedInWords(excluded: Excluded): string {
  const wanted = excluded.requirements?.length ? ` (wanted ${excluded.requirements.join(", ")})` : "";
  return inWords(excluded.reason) + wanted;
}

// upperFirst returns a message of the server as a sentence.
export const upperFirst = (words: string) => words.charAt(0).toUpperCase() + words.slice(1);
