package transport

import "time"

// GenerateRequest asks the coordinator for text.
type GenerateRequest struct {
	Messages     []ChatMessage // through the model's chat template, or
	Prompt       string        // as it is, or
	PromptTokens []int32       // as they are
	Generated    []int32       // the beginning of the answer, which another coordinator gave: the answer goes on behind it
	MaxTokens    int           // of the answer, Generated included
	Temperature  float32
	TopK         int
	TopP, MinP   float32
	Seed         uint64
	Stop         []string
	IgnoreEOS    bool
	ExpertBudget string        // for this request, as --expert-budget; "" is the coordinator's
	Timeout      time.Duration // from its arrival on; then the coordinator ends the answer. 0: none
}

// ChatMessage is one turn.
type ChatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// GenerateEvent is one piece of an answer; the last one has Done.
type GenerateEvent struct {
	Instance string // of the coordinator, in the first event
	Text     string
	Tokens   []int32

	Done             bool
	FinishReason     string // stop, length, error
	Error            string
	Retry            bool // the answer did not end: it can be continued by this or another coordinator
	PromptTokens     int
	CompletionTokens int // of the whole answer, those given in the request included
	PrefillSeconds   float64
	DecodeSeconds    float64
	Experts          *ExpertUsage // in the last event, if anything was computed
}

// ExpertUsage says what an answer cost in experts, and what its budget did.
type ExpertUsage struct {
	Budget        string // in force, as --expert-budget
	BudgetPrefill bool   // it governs prefill, too
	BudgetRescue  bool   // a row keeps its last expert

	DroppedExperts int
	LostChoices    int // experts that rows lost, summed over rows
	FilledChoices  int // experts that rows took in their place
	CutRows        int
	RescuedRows    int
	DroppedMass    float64
	GovernedRows   uint64
	DroppedShares  [3]float64 // mean, 99th percentile and largest share of a row's weight that was dropped
	DroppedBytes   int64      // of dropped experts that were not in memory
	BytesNotRead   int64      // because of the budget, by the workers' ledgers
	Ledgers        bool       // BytesNotRead is known

	Hits, Misses int
	MissBytes    int64
	BytesRead    int64
	MajorFaults  int64

	OnMissing    string        // what is done when no worker holds an expert that is needed, as --on-missing
	Retries      int           // shares of work that were sent again
	Hedges       int           // that were late, so that another worker was asked, too
	HedgeWins    int           // of these, how often the other one was faster
	Waits        int           // for experts that no worker held
	Waited       time.Duration // for how long
	DroppedParts int           // expert parts that were left out, since no worker held them
	MissingMass  float64       // combine weight that rows lost with them
	EmptyRows    int           // rows that lost all their experts
}
