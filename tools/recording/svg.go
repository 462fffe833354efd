package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"time"
)

const (
	fontSize    = 14
	cellWidth   = 8.43 // of the usual monospaced fonts
	cellHeight  = 19
	padding     = 16
	titleHeight = 30
	width       = columns*cellWidth + 2*padding
	height      = rows*cellHeight + 2*padding + titleHeight
)

// style has the colors of a light and of a dark page. An SVG in an <img> element runs no script, but
// its animations run. A reader who prefers no motion sees the last screen.
const style = `
svg{--back:#fff;--edge:#d0d7de;--text:#1f2328;--faint:#6e7781;--black:#24292f;--red:#cf222e;--green:#116329;--yellow:#7d4e00;--blue:#0969da;--magenta:#8250df;--cyan:#1b7c83;--white:#57606a}
@media (prefers-color-scheme:dark){svg{--back:#0d1117;--edge:#30363d;--text:#e6edf3;--faint:#8b949e;--black:#8b949e;--red:#ff7b72;--green:#3fb950;--yellow:#d29922;--blue:#58a6ff;--magenta:#bc8cff;--cyan:#39c5cf;--white:#e6edf3}}
.window{fill:var(--back);stroke:var(--edge)}
.edge{stroke:var(--edge)}
.dot{fill:var(--edge)}
text{font:%dpx ui-monospace,SFMono-Regular,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:var(--text);white-space:pre}
.title{fill:var(--faint);font-size:12px}
.s{visibility:hidden;animation:%s step-end infinite}
.last{visibility:visible}
.cursor{fill:var(--faint)}
.bold{font-weight:bold}
.faint{fill:var(--faint)}
`

// still is the style of a reader who prefers no motion.
const still = `@media (prefers-reduced-motion:reduce){.s{animation:none!important}}
`

// draw returns the recording as an animated SVG.
func draw(r *recording) []byte {
	segments, length := r.segments(), r.length()
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %d" width="%[1]s" height="%[2]d" role="img" aria-label="%[3]s">`, number(width), height, title)
	fmt.Fprintf(&svg, "\n<title>%s</title>\n<style>", title)
	fmt.Fprintf(&svg, style, fontSize, seconds(length))
	for _, color := range colors {
		fmt.Fprintf(&svg, ".%s{fill:var(--%[1]s)}\n", color)
	}
	names := keyframes(&svg, segments, length)
	svg.WriteString(still + "</style>\n")
	fmt.Fprintf(&svg, `<rect class="window" x=".5" y=".5" width="%s" height="%d" rx="8"/><path class="edge" d="M0 %dH%[4]s"/>`, number(width-1), height-1, titleHeight, number(width))
	for i := range 3 {
		fmt.Fprintf(&svg, `<circle class="dot" cx="%d" cy="%d" r="5"/>`, 18+i*18, titleHeight/2)
	}
	fmt.Fprintf(&svg, `<text class="title" x="%s" y="%d" text-anchor="middle">kubectl appsvc</text>`+"\n", number(width/2), titleHeight/2+4)
	for _, segment := range segments {
		class := "s " + names[segment.interval]
		if segment.to == length {
			class += " last"
		}
		fmt.Fprintf(&svg, `<text class="%s" y="%d">`, class, titleHeight+padding+segment.row*cellHeight+fontSize)
		for _, span := range segment.spans {
			fmt.Fprintf(&svg, `<tspan x="%s"`, number(padding+float64(span.column)*cellWidth))
			if span.class != "" {
				fmt.Fprintf(&svg, ` class="%s"`, span.class)
			}
			svg.WriteString(">")
			_ = xml.EscapeText(&svg, []byte(span.text)) // A buffer never fails.
			svg.WriteString("</tspan>")
		}
		svg.WriteString("</text>\n")
	}
	svg.WriteString("</svg>\n")
	return svg.Bytes()
}

// keyframes writes an animation for each interval, and returns their classes.
func keyframes(svg *bytes.Buffer, segments []segment, length time.Duration) map[interval]string {
	names := map[interval]string{}
	percent := func(at time.Duration) string { return number(100 * float64(at) / float64(length)) }
	for _, segment := range segments {
		if names[segment.interval] != "" {
			continue
		}
		name := "k" + strconv.Itoa(len(names))
		names[segment.interval] = name
		fmt.Fprintf(svg, "@keyframes %s{", name)
		if segment.from > 0 {
			svg.WriteString("0%{visibility:hidden}")
		}
		fmt.Fprintf(svg, "%s%%{visibility:visible}", percent(segment.from))
		if segment.to < length {
			fmt.Fprintf(svg, "%s%%,to{visibility:hidden}", percent(segment.to))
		} else {
			svg.WriteString("to{visibility:visible}")
		}
		fmt.Fprintf(svg, "}.%s{animation-name:%[1]s}\n", name)
	}
	return names
}

func number(f float64) string {
	return strconv.FormatFloat(float64(int(f*1000+0.5))/1000, 'f', -1, 64)
}

func seconds(d time.Duration) string { return number(d.Seconds()) + "s" }
