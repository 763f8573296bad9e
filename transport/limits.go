package transport

import "time"

// Limits of what is accepted from the other side. They are checked when sending too, so that the sender gets the error.
const (
	MaxRows        = 1 << 14 // rows of one Work
	MaxHidden      = 1 << 16 // columns of a row
	MaxLayers      = 1 << 12
	MaxPartsOfRow  = 1 << 12 // expert parts of one row
	MaxLayerParts  = 1 << 20 // expert parts of one layer
	MaxServed      = 3       // epochs that a worker serves at a time
	MaxMessage     = 1 << 30 // bytes of an assembled frame
	maxCPUs        = 1 << 16
	maxNotes       = 1 << 10
	maxText        = 1 << 16 // bytes of a short text: names, reasons, errors
	maxPrompt      = 1 << 26 // bytes of a prompt
	maxPromptToken = 1 << 24
	maxChatTurns   = 1 << 14
	maxStops       = 1 << 8
)

const (
	// ProgressInterval is how often a worker reports that it still computes, and both sides that they live.
	ProgressInterval = time.Second
	// SilenceLimit is how long the other side may be silent before it counts as dead.
	SilenceLimit = 5 * time.Second

	silentTicks = int(SilenceLimit / ProgressInterval)

	maxAssembly       = 2 << 30          // bytes of all unfinished messages of one subscription
	maxAssemblyAge    = 30 * time.Second // since the last part
	maxTransfers      = 1 << 10          // unfinished messages of one subscription
	maxSpare          = 64 << 20         // bytes of memory that are kept for the next message in parts
	maxQueuedWork     = 64               // Works that wait at a worker
	maxQueuedGenerate = 64               // generate requests that wait at a coordinator
	receiveCapacity   = 1 << 14          // NATS messages between the connection and the reading goroutine
)
