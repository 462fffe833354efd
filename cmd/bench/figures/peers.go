package figures

import (
	"slices"
	"strings"
)

// PeerTable returns a Markdown table of the figures that a peer of a writer has: a column for the
// writer, for the writer that is the floor, and for each peer, and the ratio of the writer to each
// peer.
func (s Samples) PeerTable(writer, floor string, peers ...string) string {
	writers := append([]string{writer, floor}, peers...)
	heads := append([]string{"scenario", "figure", "unit"}, writers...)
	for _, peer := range peers {
		heads = append(heads, writer+" / "+peer)
	}
	var b strings.Builder
	b.WriteString(row(heads) + "|" + strings.Repeat("---|", len(heads)) + "\n")
	for _, key := range s.keys() {
		if !s.has(key, peers) {
			continue
		}
		cells := []string{key.Scenario, key.Name, s.unit(key)}
		for _, each := range writers {
			cells = append(cells, s.Summarize(key, each).String())
		}
		for _, peer := range peers {
			cells = append(cells, s.Ratio(key, writer, key, peer).String())
		}
		b.WriteString(row(cells))
	}
	return b.String()
}

// has reports whether one of the writers has samples of a figure.
func (s Samples) has(key Key, writers []string) bool {
	return slices.ContainsFunc(writers, func(writer string) bool { return len(s.of(key, writer)) > 0 })
}

func row(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
