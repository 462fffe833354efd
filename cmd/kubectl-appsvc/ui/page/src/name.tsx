// Names that do not fit are cut in the middle, because the names of a fleet often differ at their end.

// A line has place for about this many characters.
export const lineLength = 14;

// splitName returns the start and the end of a name. The end is at most one line long, and begins after a
// separator if it can: after the last one that lets the start fit on a line, or otherwise after the
// first one. A name that fits on one line has no end.
export function splitName(name: string): [start: string, end: string] {
  if (name.length <= lineLength) return [name, ""];
  const earliest = name.length - lineLength;
  let cut = 0;
  for (let at = earliest; at <= name.length - 3; at++) {
    if (/[-._]/.test(name[at - 1]!) && (cut === 0 || at <= lineLength)) cut = at;
  }
  return [name.slice(0, cut || earliest), name.slice(cut || earliest)];
}

// Name shows a name whose start gives way, and whose end can always be seen. style.css decides whether
// the end has its own line. A screen reader, a search in the page and a copy get the whole name.
export function Name({ text }: { text: string }) {
  const [start, end] = splitName(text);
  if (!end) return <b class="name">{text}</b>;
  return (
    <b class="name cut">
      <span class="hidden">{text}</span>
      <span class="start" aria-hidden="true">
        {start}
      </span>
      <span class="end" aria-hidden="true">
        {end}
      </span>
    </b>
  );
}
