// Requests to the server that sent this page.
import { joinParts } from "./model";
import type { Change, Changes, Detail } from "./types";

const tokenKey = "token";
// The server says something every five seconds, even if nothing changes.
const silence = 15_000;
const retryAfter = 2_000;

// takeToken returns the token of the URL, and removes it from the address bar. What the page is to show
// stays there. A reload finds the token in the storage of this tab, which other ports of this machine
// cannot read.
export function takeToken(): string {
  const parts = location.hash.slice(1).split("&");
  const isToken = (part: string) => part.startsWith(`${tokenKey}=`);
  const token = parts.find(isToken)?.slice(tokenKey.length + 1);
  if (token !== undefined) {
    if (/^[A-Za-z0-9]+$/.test(token)) sessionStorage.setItem(tokenKey, token);
    const rest = parts.filter((part) => !isToken(part)).join("&");
    history.replaceState(null, "", location.pathname + (rest && `#${rest}`));
  }
  return sessionStorage.getItem(tokenKey) ?? "";
}

export type Connection = "connecting" | "open" | "lost" | "refused";

// follow reads changes until the signal aborts. After a lost stream it starts again, and the first
// change then has the whole state.
export async function follow(token: string, signal: AbortSignal, onChange: (change: Change) => void, onConnection: (state: Connection) => void) {
  while (!signal.aborted) {
    const attempt = new AbortController();
    const abort = () => attempt.abort();
    signal.addEventListener("abort", abort);
    let watchdog = setTimeout(abort, silence);
    try {
      const response = await fetch("/api/stream", { headers: authorization(token), signal: attempt.signal });
      if (response.status === 401 || response.status === 403) {
        onConnection("refused");
        return;
      }
      if (!response.ok || !response.body) throw new Error(response.statusText);
      let change: Change | undefined;
      for await (const data of events(response.body)) {
        clearTimeout(watchdog);
        watchdog = setTimeout(abort, silence);
        change = joinParts(change, JSON.parse(data) as Change);
        if (change.more) {
          await nextTask();
          continue;
        }
        onChange(change);
        onConnection("open");
        change = undefined;
      }
    } catch {
      // The state "lost" says it.
    } finally {
      abort(); // the stream, if the page could not read what it said
      clearTimeout(watchdog);
      signal.removeEventListener("abort", abort);
    }
    if (signal.aborted) return;
    onConnection("lost");
    await new Promise((resolve) => setTimeout(resolve, retryAfter));
  }
}

// nextTask lets the page react to its user. A timer would be slow in a tab that is not shown.
function nextTask(): Promise<unknown> {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = resolve;
    channel.port2.postMessage(undefined);
  });
}

// events returns the data of each server-sent event. The server writes one line of data for each.
async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const pieces = decoder.decode(value, { stream: true }).split("\n");
    for (const [i, piece] of pieces.entries()) {
      parts.push(piece);
      if (i === pieces.length - 1) break;
      const line = parts.join("");
      parts = [];
      if (line.startsWith("data: ")) yield line.slice("data: ".length);
    }
  }
}

function authorization(token: string): HeadersInit {
  return { Authorization: `Bearer ${token}` };
}

// readDetail reads the detail of an AppService, of one of its clusters, or of a cluster.
export async function readDetail(token: string, target: { app?: { namespace: string; name: string }; cluster?: string }, signal: AbortSignal): Promise<Detail> {
  const query = new URLSearchParams();
  if (target.app) {
    query.set("namespace", target.app.namespace);
    query.set("name", target.app.name);
    if (target.cluster) query.set("cluster", target.cluster);
  } else {
    query.set("name", target.cluster ?? "");
  }
  const response = await fetch(`/api/${target.app ? "app" : "cluster"}?${query}`, { headers: authorization(token), signal });
  if (!response.ok) throw new Error((await response.text()).trim());
  return (await response.json()) as Detail;
}

// readChanges reads what a revision changed.
export async function readChanges(token: string, app: { namespace: string; name: string }, revision: number, signal: AbortSignal): Promise<Changes> {
  const query = new URLSearchParams({ namespace: app.namespace, name: app.name, revision: String(revision) });
  const response = await fetch(`/api/changes?${query}`, { headers: authorization(token), signal });
  if (!response.ok) throw new Error((await response.text()).trim());
  return (await response.json()) as Changes;
}
