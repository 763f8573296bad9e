package transport

import "math"

func (m *GenerateRequest) fields(w *wire) {
	w.array("generate", 11)
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
}

// eventFrame is an event with its number in the stream, from 0. One that says nothing is a sign of life.
type eventFrame struct {
	number uint64
	event  *GenerateEvent
}

func (f *eventFrame) fields(w *wire) {
	m := f.event
	w.array("event", 10)
	w.uint64(&f.number, "number", math.MaxUint64)
	w.string(&m.Text, "text", maxPrompt)
	list(w, &m.Tokens, "tokens", maxPromptToken)
	w.bool(&m.Done, "done")
	w.string(&m.FinishReason, "finish reason", maxText)
	if !w.reading && len(m.Error) > maxText {
		m.Error = m.Error[:maxText]
	}
	w.string(&m.Error, "error", maxText)
	w.int(&m.PromptTokens, "prompt tokens", 0, math.MaxInt32)
	w.int(&m.CompletionTokens, "completion tokens", 0, math.MaxInt32)
	w.float64(&m.PrefillSeconds, "prefill seconds")
	w.float64(&m.DecodeSeconds, "decode seconds")
}

// empty is a message without fields: a client's sign of life, or its cancel.
type empty struct{}

func (empty) fields(w *wire) { w.array("message", 0) }
