package transport

import (
	"math"
	"time"
)

func (m *GenerateRequest) fields(w *wire) {
	w.array("generate", 14)
	n := len(m.Messages)
	w.count(&n, "messages", 3, maxChatTurns)
	if w.err != nil {
		return
	}
	if w.reading {
		m.Messages = make([]ChatMessage, n)
	}
	for i := range m.Messages {
		w.array("messages", 2)
		w.string(&m.Messages[i].Role, "role", maxText)
		w.string(&m.Messages[i].Content, "content", maxPrompt)
	}
	w.string(&m.Prompt, "prompt", maxPrompt)
	list(w, &m.PromptTokens, "prompt tokens", maxPromptToken)
	list(w, &m.Generated, "generated", maxPromptToken)
	w.int(&m.MaxTokens, "max tokens", math.MinInt32, math.MaxInt32)
	w.float32(&m.Temperature, "temperature")
	w.int(&m.TopK, "top-k", math.MinInt32, math.MaxInt32)
	w.float32(&m.TopP, "top-p")
	w.float32(&m.MinP, "min-p")
	w.uint64(&m.Seed, "seed", math.MaxUint64)
	n = len(m.Stop)
	w.count(&n, "stop", 1, maxStops)
	if w.err != nil {
		return
	}
	if w.reading {
		m.Stop = make([]string, n)
	}
	for i := range m.Stop {
		w.string(&m.Stop[i], "stop", maxText)
	}
	w.bool(&m.IgnoreEOS, "ignore eos")
	w.string(&m.ExpertBudget, "expert budget", maxText)
	w.int64((*int64)(&m.Timeout), "timeout", 0, int64(maxTimeout))
}

// maxTimeout is the most time that a request may ask for.
const maxTimeout = 30 * 24 * time.Hour

// eventFrame is an event with its number in the stream, from 0. One that says nothing is a sign of life.
type eventFrame struct {
	number uint64
	event  *GenerateEvent
}

func (f *eventFrame) fields(w *wire) {
	m := f.event
	w.array("event", 13)
	w.uint64(&f.number, "number", math.MaxUint64)
	w.string(&m.Instance, "instance", maxText)
	w.string(&m.Text, "text", maxPrompt)
	list(w, &m.Tokens, "tokens", maxPromptToken)
	w.bool(&m.Done, "done")
	w.string(&m.FinishReason, "finish reason", maxText)
	if !w.reading && len(m.Error) > maxText {
		m.Error = m.Error[:maxText]
	}
	w.string(&m.Error, "error", maxText)
	w.bool(&m.Retry, "retry")
	w.int(&m.PromptTokens, "prompt tokens", 0, math.MaxInt32)
	w.int(&m.CompletionTokens, "completion tokens", 0, math.MaxInt32)
	w.float64(&m.PrefillSeconds, "prefill seconds")
	w.float64(&m.DecodeSeconds, "decode seconds")
	n := 0
	if m.Experts != nil {
		n = 1
	}
	w.count(&n, "experts", 1, 1)
	if w.reading {
		m.Experts = nil
	}
	if w.err != nil || n == 0 {
		return
	}
	if w.reading {
		m.Experts = &ExpertUsage{}
	}
	m.Experts.fields(w)
}

func (m *ExpertUsage) fields(w *wire) {
	w.array("experts", 30)
	w.string(&m.Budget, "budget", maxText)
	w.bool(&m.BudgetPrefill, "budget prefill")
	w.bool(&m.BudgetRescue, "budget rescue")
	w.int(&m.DroppedExperts, "dropped experts", 0, math.MaxInt)
	w.int(&m.LostChoices, "lost choices", 0, math.MaxInt)
	w.int(&m.FilledChoices, "filled choices", 0, math.MaxInt)
	w.int(&m.CutRows, "cut rows", 0, math.MaxInt)
	w.int(&m.RescuedRows, "rescued rows", 0, math.MaxInt)
	w.float64(&m.DroppedMass, "dropped mass")
	w.uint64(&m.GovernedRows, "governed rows", math.MaxUint64)
	for i := range m.DroppedShares {
		w.float64(&m.DroppedShares[i], "dropped shares")
	}
	w.int64(&m.DroppedBytes, "dropped bytes", 0, math.MaxInt64)
	w.int64(&m.BytesNotRead, "bytes not read", math.MinInt64, math.MaxInt64)
	w.bool(&m.Ledgers, "ledgers")
	w.int(&m.Hits, "hits", 0, math.MaxInt)
	w.int(&m.Misses, "misses", 0, math.MaxInt)
	w.int64(&m.MissBytes, "miss bytes", 0, math.MaxInt64)
	w.int64(&m.BytesRead, "bytes read", 0, math.MaxInt64)
	w.int64(&m.MajorFaults, "major faults", 0, math.MaxInt64)
	w.string(&m.OnMissing, "on missing", maxText)
	w.int(&m.Retries, "retries", 0, math.MaxInt)
	w.int(&m.Hedges, "hedges", 0, math.MaxInt)
	w.int(&m.HedgeWins, "hedge wins", 0, math.MaxInt)
	w.int(&m.Waits, "waits", 0, math.MaxInt)
	w.int64((*int64)(&m.Waited), "waited", 0, math.MaxInt64)
	w.int(&m.DroppedParts, "dropped parts", 0, math.MaxInt)
	w.float64(&m.MissingMass, "missing mass")
	w.int(&m.EmptyRows, "empty rows", 0, math.MaxInt)
}

// empty is a message without fields: a client's sign of life, or its cancel.
type empty struct{}

func (empty) fields(w *wire) { w.array("message", 0) }
