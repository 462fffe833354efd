// What the server sends. These are the types of state.go, feed.go, fleet.go and detail.go.

export type Phase = "Failed" | "Unknown" | "Detached" | "Progressing" | "Pending" | "Removing" | "Ready";

export interface Cluster {
  name: string;
  region?: string;
  version?: string;
  labels?: Record<string, string>;
  ready: "True" | "False" | "Unknown";
  reason?: string;
  since?: string;
  cordoned?: boolean;
  taints?: string[];
  detached?: boolean;
}

export interface Cell {
  cluster: string;
  phase: Phase;
  ready: number;
  wanted: number;
  revision?: number;
  reason?: string;
  since?: string;
  lastKnown?: Phase;
}

export interface Excluded {
  reason: string;
  count: number;
  examples: string[];
  requirements?: string[];
}

export interface Stage {
  name: string;
  phase: "Pending" | "Skipped" | "AwaitingApproval" | "Progressing" | "Soaking" | "Completed";
  since?: string;
  needsApproval?: boolean;
  approved?: boolean;
  promoted?: boolean;
  soakSeconds?: number;
  clusters: number;
  upToDate: number;
  available: number;
  failed?: number;
}

export interface Rollout {
  phase?: "Progressing" | "Completed" | "Halted" | "RollingBack" | "RolledBack";
  paused?: boolean;
  stable?: number;
  failed?: number;
  stages?: Stage[];
}

export interface App {
  namespace: string;
  name: string;
  labels?: Record<string, string>;
  phase: Phase;
  reason?: string;
  message?: string;
  suspended?: boolean;
  deleting?: boolean;
  clusters: number;
  ready: number;
  upToDate: number;
  pods: number;
  readyPods: number;
  revision?: number;
  rollout?: Rollout;
  cells: Cell[];
  excluded?: Excluded[];
}

export interface Kind {
  resource: string;
  synced: boolean;
  problem?: string;
}

export interface Hub {
  context?: string;
  namespace?: string;
  lastAnswer: string;
  problem?: string;
  operatorProblem?: string;
  kinds: Kind[];
}

export interface Change {
  full?: boolean;
  more?: boolean;
  hub: Hub;
  clusters?: Cluster[];
  apps?: App[];
  gone?: string[];
}

export type StepState = "Done" | "Current" | "Failed" | "Pending" | "Skipped";

export interface Moment {
  text: string;
  state: StepState;
  time?: string;
  until?: string;
}

export interface Step {
  name: string;
  state: StepState;
  clusters?: { all: number; upToDate: number; available: number; failed?: number };
  moments?: Moment[];
}

export interface Timeline {
  revision: number;
  image?: string;
  phase: string;
  steps: Step[];
  notes?: string[];
}

export interface Revision {
  revision: number;
  stored?: boolean;
  image?: string;
  time?: string;
  before?: number;
  changed?: string[];
  clusters: number;
  states?: string[];
}

export interface Changes {
  diff: string;
  cut?: boolean;
}

export interface Detail {
  message?: string;
  timeline?: Timeline;
  facts: { name: string; value: string }[];
  conditions: { type: string; status: string; reason?: string; message?: string; since: string }[];
  revisions?: Revision[];
  revisionsProblem?: string;
  commands: { purpose: string; line: string }[];
  events: { time: string; warning?: boolean; reason: string; message: string; count?: number }[];
  eventsProblem?: string;
}
