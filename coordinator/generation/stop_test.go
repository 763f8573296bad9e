package generation

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// Whatever the pieces, the text that comes out is the text up to the stop string.
func TestStopText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringMatching(`[ab\n]{0,12}`)
		pieces := rapid.SliceOf(letters).Draw(t, "pieces")
		stops := rapid.SliceOfN(rapid.StringMatching(`[ab\n]{1,4}`), 0, 1).Draw(t, "stops")
		s := &stopText{stops: stops}
		out := ""
		for _, p := range pieces {
			out += s.take(p, false)
		}
		out += s.take("", true)
		whole := strings.Join(pieces, "")
		want := whole
		if at := earliest(whole, stops); at >= 0 {
			want = whole[:at]
		}
		if out != want {
			t.Fatalf("pieces %q, stops %q: %q, want %q", pieces, stops, out, want)
		}
		if s.stopped != (want != whole) {
			t.Fatalf("stopped %v", s.stopped)
		}
	})
}

func TestEarliest(t *testing.T) {
	t.Parallel()
	if at := earliest("one two three", []string{"three", "two"}); at != 4 {
		t.Errorf("earliest at %d, want 4", at)
	}
	if at := earliest("one", []string{"two"}); at != -1 {
		t.Errorf("earliest at %d, want -1", at)
	}
	if n := longestPrefixAtEnd("xyzab", []string{"abc", "zabq"}); n != 3 {
		t.Errorf("%d held back, want 3", n)
	}
}
