package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/coordinator/serve"
	"github.com/moepool/moepool/internal/bytesize"
)

// statusView renders a cluster's status as lines of text.
type statusView struct {
	status  *serve.Status // nil: none was read yet
	problem error         // of the last reading
	now     time.Time
	styled  bool      // for a terminal: colours and bars
	speeds  []float64 // tokens/s of the last minute, oldest first
}

const (
	eventsShown = 10
	speedsShown = 60
)

// remember keeps a reading of tokens/s for the graph.
func (v *statusView) remember(speed float64) {
	if v.speeds = append(v.speeds, speed); len(v.speeds) > speedsShown {
		v.speeds = slices.Delete(v.speeds, 0, 1)
	}
}

// lines are the whole view.
func (v *statusView) lines() []string {
	if v.status == nil {
		return nil
	}
	s := v.status
	lines := []string{v.headline(), v.model()}
	lines = append(lines, v.placement()...)
	lines = append(lines, v.requests(), "")
	lines = append(lines, v.workers()...)
	lines = append(lines, v.residency()...)
	if events := v.recent(); len(events) > 0 {
		lines = append(lines, "", v.style(bold, "recent"))
		lines = append(lines, events...)
	}
	for _, w := range s.Members.Workers {
		for _, note := range w.Notes {
			lines = append(lines, v.style(yellow, oneLine(fmt.Sprintf("%s: %s", w.ID, note))))
		}
	}
	return lines
}

func (v *statusView) headline() string {
	s := v.status
	state := v.style(yellow, "not ready")
	switch {
	case s.Members.Ready && s.Serves:
		state = v.style(green, "ready")
	case s.Members.Ready:
		state = v.style(yellow, "loading")
	}
	if s.Members.Waiting != "" {
		state += " (" + s.Members.Waiting + ")"
	}
	leader := "coordinator " + s.Members.Coordinator
	if s.Leader != "" {
		leader = fmt.Sprintf("leader %s, term %d", s.Leader, s.Members.Term)
	}
	return fmt.Sprintf("%s: %s; %s, build %s, up %s", v.style(bold, "cluster "+s.Cluster), state, leader, s.Build,
		s.Members.Time.Sub(s.Started).Round(time.Second))
}

func (v *statusView) model() string {
	m := v.status.Model
	digest := m.Digest
	if len(digest) > 12 {
		digest = digest[:12]
	}
	return fmt.Sprintf("model: %s %s, experts %s in %s, context %d, expert budget %s; %d expert parts, %s", m.Family, digest, m.Format,
		counted(m.Parts, "part"), m.Context, m.Budget, v.status.Members.Parts, bytesize.Text(v.status.Members.PartBytes))
}

func (v *statusView) placement() (lines []string) {
	m := &v.status.Members
	if m.Active == nil {
		lines = append(lines, "placement: none yet")
	} else {
		line := fmt.Sprintf("placement: %d on %s", m.Active.Epoch, counted(len(m.Active.Workers), "worker"))
		if m.Active.Replicas > 0 {
			line += fmt.Sprintf(", %d replicas", m.Active.Replicas)
		}
		if m.Uncovered > 0 {
			line += v.style(red, fmt.Sprintf(", %d expert parts without a worker", m.Uncovered))
		}
		if m.Active.Reason != "" {
			line += " (" + m.Active.Reason + ")"
		}
		lines = append(lines, line)
	}
	if p := m.Pending; p != nil {
		lines = append(lines, v.style(yellow, fmt.Sprintf("placement: %d is next, %s: %d of %s, %s to load (%s)", p.Epoch, p.Phase,
			len(p.Workers)-len(p.Missing), counted(len(p.Workers), "worker"), bytesize.Text(p.Moved), p.Reason)))
	}
	if m.Problem != "" {
		lines = append(lines, v.style(red, "placement: no new one: "+m.Problem))
	}
	return lines
}

func (v *statusView) requests() string {
	r, x := v.status.Requests, v.status.Experts
	running := "none runs"
	if r.Running {
		running = "1 runs"
	}
	line := fmt.Sprintf("requests: %s, %d wait, %d answered, %d failed; %.1f tokens/s", running, r.Waiting, r.Answered, r.Failed, r.TokensPerSecond)
	if v.styled && len(v.speeds) > 1 {
		line += " " + sparkline(v.speeds)
	}
	if n := x.Hits + x.Misses; n > 0 {
		line += fmt.Sprintf("; experts %.1f %% in memory when needed, %s read", 100*float64(x.Hits)/float64(n), bytesize.Text(x.BytesRead))
	}
	if x.DroppedExperts > 0 {
		line += fmt.Sprintf(", %d dropped by budgets", x.DroppedExperts)
	}
	return line
}

// workers is the table.
func (v *statusView) workers() []string {
	workers := v.status.Members.Workers
	if len(workers) == 0 {
		return []string{"no workers: start them with moepool worker --nats ..."}
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HOST\tNODE\tWORKER\tSTATE\tPARTS\tPRIMARY\tRESIDENT\tBYTES\tQUEUE\tLAYER\tGB/S\tPLACEMENTS\tPROBLEM")
	host := ""
	for i := range workers {
		w := &workers[i]
		shown := oneLine(w.Host)
		if w.Host == host {
			shown = ""
		}
		host = w.Host
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%d\t%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", shown, w.Node, w.ID, state(w), w.Parts, w.Primaries, v.resident(w),
			bytesize.Text(w.Bytes), w.Queue, v.latency(w.ID), speed(w.Bandwidth), epochs(w.Serves), problem(w))
	}
	table.Flush()
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if v.styled { // behind the table, which counts characters
		lines[0] = v.style(bold, lines[0])
		for i := range workers {
			lines[i+1] = v.style(colour(&workers[i]), lines[i+1])
		}
	}
	return lines
}

// state is a worker's state with how far it is.
func state(w *membership.WorkerStatus) string {
	if r := &w.Residency; w.State == "loading" && w.TotalBytes > 0 && w.LoadedBytes >= w.TotalBytes && r.WarmTotal > 0 {
		return fmt.Sprintf("warming %d%%", 100*r.WarmDone/r.WarmTotal)
	}
	if w.State == "loading" && w.TotalBytes > 0 {
		return fmt.Sprintf("loading %d%%", 100*w.LoadedBytes/w.TotalBytes)
	}
	return w.State
}

func colour(w *membership.WorkerStatus) style {
	switch {
	case w.State == membership.StateLost || w.State == "failed":
		return red
	case !w.Usable || w.State != "ready":
		return yellow
	}
	return plain
}

// problem is why a worker can't be used, in the table only if its state doesn't say it.
func problem(w *membership.WorkerStatus) string {
	if w.Usable {
		return ""
	}
	return oneLine(w.Problem)
}

func (v *statusView) resident(w *membership.WorkerStatus) string {
	if w.Parts == 0 {
		return "-"
	}
	share := min(1, float64(w.ResidentParts)/float64(w.Parts))
	text := fmt.Sprintf("%.0f%%", 100*share)
	if v.styled {
		const width = 8
		full := int(share*width + 0.5)
		return strings.Repeat("█", full) + strings.Repeat("░", width-full) + " " + text
	}
	return text
}

// latency is the mean round trip of a layer's work.
func (v *statusView) latency(worker string) string {
	t, ok := v.status.Workers[worker]
	if !ok || t.Requests == 0 {
		return "-"
	}
	return time.Duration(t.Latency * float64(time.Second)).Round(10 * time.Microsecond).String()
}

func speed(bytesPerSecond float64) string {
	if bytesPerSecond == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", bytesPerSecond/1e9)
}

func epochs(serves []uint64) string {
	if len(serves) == 0 {
		return "-"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(serves), " ", ","), "[]")
}

// recent is what has happened lately, the newest first: workers, placements, failed requests.
func (v *statusView) recent() []string {
	type event struct {
		at   time.Time
		line string
		bad  bool
	}
	var all []event
	for _, e := range v.status.Members.Events {
		text := e.Text
		if e.Worker != "" {
			text = "worker " + e.Worker + ": " + text
		} else if e.Epoch != 0 {
			text = fmt.Sprintf("placement %d: %s", e.Epoch, text)
		}
		bad := e.Kind == membership.EventLost || e.Kind == membership.EventFailed || e.Kind == membership.EventRefused
		all = append(all, event{e.Time, fmt.Sprintf("%-8s %s", e.Kind, text), bad})
	}
	for _, f := range v.status.Failures {
		all = append(all, event{f.Time, "request  " + f.Error, true})
	}
	slices.SortStableFunc(all, func(a, b event) int { return b.at.Compare(a.at) })
	var lines []string
	for _, e := range all[:min(len(all), eventsShown)] {
		line := fmt.Sprintf("  %s  %s", e.at.Local().Format(time.TimeOnly), oneLine(e.line))
		if e.bad {
			line = v.style(red, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// oneLine is a text without line breaks and control characters, as texts of other hosts must not move the cursor.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// screen is the view as one frame of a terminal.
func (v *statusView) screen(width, height int) string {
	lines := v.lines()
	if v.problem != nil {
		lines = append([]string{v.style(red, oneLine(v.problem.Error())), ""}, lines...)
	}
	if len(lines) > height-1 {
		lines = lines[:max(0, height-1)]
	}
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, v.style(faint, fmt.Sprintf("%s  each second; Ctrl-C leaves", v.now.Format(time.TimeOnly))))
	var frame strings.Builder
	frame.WriteString(home)
	for i, line := range lines {
		if i > 0 {
			frame.WriteString("\r\n")
		}
		frame.WriteString(clip(line, width))
		frame.WriteString(clearLine)
	}
	frame.WriteString(clearBelow)
	return frame.String()
}

// style is an escape sequence that a line is set in.
type style string

const (
	plain  style = ""
	bold   style = "\x1b[1m"
	faint  style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	reset  style = "\x1b[0m"
)

func (v *statusView) style(s style, text string) string {
	if !v.styled || s == plain {
		return text
	}
	return string(s) + text + string(reset)
}

// clip cuts a line to a width, escape sequences not counted.
func clip(line string, width int) string {
	var out strings.Builder
	used, escaped := 0, false
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case escaped:
			escaped = r != 'm'
		case r == '\x1b':
			escaped = true
		case used == width:
			i += size
			continue
		default:
			used++
		}
		out.WriteString(line[i : i+size])
		i += size
	}
	return out.String()
}

// sparkline draws numbers as small bars, the largest full.
func sparkline(values []float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	most := max(slices.Max(values), 1e-9)
	out := make([]rune, len(values))
	for i, x := range values {
		out[i] = bars[min(len(bars)-1, int(max(0, x)/most*float64(len(bars)-1)+0.5))]
	}
	return string(out)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
