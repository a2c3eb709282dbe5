package main

import (
	"fmt"
	"html"
	"io"
	"slices"

	"extender-gateway.io/tests/bench/results"
)

// Measures of the picture, in pixels of its own.
const (
	width       = 760
	labelWidth  = 230
	valueWidth  = 150
	barHeight   = 18
	rowHeight   = 24
	headHeight  = 34
	groupMargin = 18
	margin      = 16
	titleHeight = 30
)

// Most situations that a readable chart can hold.
const mostGroups = 4

// style has the colors for light and dark pages: an image in a page follows the reader's setting.
const style = `
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.head { font-weight: 600 }
.note { fill: #59636e; font-size: 11px }
.none { fill: #b6bfc8 } .echo { fill: #8c959f } .plain { fill: #d4a72c } .gateway { fill: #0969da }
.spread { stroke: #1f2328; stroke-width: 1.5 }
.base { stroke: #d1d9e0 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .note { fill: #9198a1 }
  .none { fill: #656c76 } .echo { fill: #9198a1 } .plain { fill: #9e6a03 } .gateway { fill: #4493f8 }
  .spread { stroke: #f0f6fc }
  .base { stroke: #3d444d }
}
`

// group is a situation with the displayed contenders.
type group struct {
	results.Situation
	bars []results.Contender
	// most is the value of the longest bar.
	most float64
}

// groups are the main situations: up to four, those with three policies first.
func groups(run results.Run) (list []group) {
	situations := slices.Clone(run.Situations)
	slices.SortStableFunc(situations, func(a, b results.Situation) int { return distance(a) - distance(b) })
	for _, s := range situations[:min(len(situations), mostGroups)] {
		g := group{Situation: s}
		for _, c := range s.Contenders {
			if c.Kind != "unbatched" {
				g.bars = append(g.bars, c)
				g.most = max(g.most, c.PodsPerSecond.UpperQuartile)
			}
		}
		list = append(list, g)
	}
	return list
}

// distance is 0 for the situations that the documentation is about.
func distance(s results.Situation) int {
	if s.Policies == 3 && s.Nodes >= 1000 {
		return 0
	}
	return 1
}

// draw writes the chart: a group of bars for each situation, each with a scale of its own.
func draw(out io.Writer, run results.Run) {
	list := groups(run)
	height := titleHeight + 2*margin
	for _, g := range list {
		height += headHeight + rowHeight*len(g.bars) + groupMargin
	}
	fmt.Fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Pods a second of kube-scheduler\">\n<style>%s</style>\n",
		width, height, style)
	words(out, margin, margin+14, "title", "Pods a second that kube-scheduler places; longer is better")
	y := margin + titleHeight
	for _, g := range list {
		y = g.draw(out, y)
	}
	e := run.Environment
	words(out, margin, height-margin/2, "note", fmt.Sprintf("Medians of %d rounds in turn, lines from quartile to quartile; %d cores, Kubernetes %s, %s, %s",
		run.Rounds, e.Cores, e.Kubernetes, e.Date, e.Commit))
	fmt.Fprintln(out, "</svg>")
}

// draw writes the group with its upper edge at y and returns its lower edge.
func (g group) draw(out io.Writer, y int) int {
	words(out, margin, y+18, "head", heading(g.Situation))
	y += headHeight - 6
	left := margin + labelWidth
	fmt.Fprintf(out, "<line class=\"base\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", left, y, left, y+rowHeight*len(g.bars))
	for _, c := range g.bars {
		g.bar(out, left, y+(rowHeight-barHeight)/2, c)
		y += rowHeight
	}
	return y + groupMargin
}

func (g group) bar(out io.Writer, left, y int, c results.Contender) {
	room := float64(width - margin - valueWidth - left)
	at := func(rate float64) float64 { return room * rate / g.most }
	p := c.PodsPerSecond
	words(out, margin, y+13, "", c.Title)
	fmt.Fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n", c.Kind, left, y, at(p.Median), barHeight)
	fmt.Fprintf(out, "<line class=\"spread\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n",
		float64(left)+at(p.LowerQuartile), y+barHeight/2, float64(left)+at(p.UpperQuartile), y+barHeight/2)
	value := rounded(p.Median)
	if c.RatioToEcho != nil && c.Kind != "echo" {
		value += fmt.Sprintf("  (%.0f %% of echo)", 100*c.RatioToEcho.Median)
	}
	words(out, left+int(at(max(p.Median, p.UpperQuartile)))+8, y+13, "", value)
}

// rounded keeps a decimal if there are few digits.
func rounded(rate float64) string {
	if rate < 20 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

func words(out io.Writer, x, y int, class, text string) {
	fmt.Fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>\n", class, x, y, html.EscapeString(text))
}
