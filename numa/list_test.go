package numa_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"

	"github.com/moepool/moepool/numa"
)

func TestParseList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"":               {},
		"\n":             {},
		"0\n":            {0},
		"0-3\n":          {0, 1, 2, 3},
		"0-1,8,10-11":    {0, 1, 8, 10, 11},
		"8, 1-2 ,2-3,8":  {1, 2, 3, 8},
		"1023-1024,2000": {1023, 1024, 2000},
	} {
		got, err := numa.ParseList(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	for _, text := range []string{"a", "1-", "-1", "3-1", "1-2-3", "0-99999999999", "0-2000000000", "0x1", "1 2"} {
		if got, err := numa.ParseList(text); err == nil {
			t.Errorf("%q gave %v, want an error", text, got)
		}
	}
}

func TestFormatListIsTheInverse(t *testing.T) {
	t.Parallel()
	if got := numa.FormatList(nil); got != "none" {
		t.Errorf("empty list: %q", got)
	}
	if got := numa.FormatList([]int{0, 1, 2, 5, 7, 8}); got != "0-2,5,7-8" {
		t.Errorf("got %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.SliceOfNDistinct(rapid.IntRange(0, 60), 1, 40, rapid.ID[int]).Draw(t, "set")
		// Whatever order and repetition a text has, what it means is the same.
		text := ""
		for _, n := range append(set, set[0]) {
			text += numa.FormatList([]int{n}) + ","
		}
		list, err := numa.ParseList(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := numa.ParseList(numa.FormatList(list))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list, again); diff != "" {
			t.Fatal(diff)
		}
		if len(list) != len(set) {
			t.Fatalf("%d numbers became %d", len(set), len(list))
		}
	})
}
