package leaks

import (
	"strings"
	"testing"
	"time"
)

func waitsForItsEnd(end <-chan struct{}) { <-end }

// TestFind: a goroutine that ends later than goleak alone would wait for is none that was left; one that doesn't end is.
func TestFind(t *testing.T) {
	end := make(chan struct{})
	go waitsForItsEnd(end)
	if err := find(0); err == nil || !strings.Contains(err.Error(), "waitsForItsEnd") {
		t.Fatalf("a goroutine that has not ended: %v", err)
	}
	time.AfterFunc(time.Second, func() { close(end) })
	if err := find(patience); err != nil {
		t.Fatal(err)
	}
}
