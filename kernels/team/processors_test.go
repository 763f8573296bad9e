package team_test

import (
	"runtime"
	"testing"

	"github.com/moepool/moepool/kernels/team"
)

// The Go scheduler has two processors more than there are threads in teams, as long as they are open. Not parallel: other tests' teams
// count, too.
func TestProcessorsBesideTeams(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	expect := func(threads int) {
		t.Helper()
		want := before
		if threads > 0 {
			want = max(before, threads+2)
		}
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("GOMAXPROCS is %d with teams of %d threads, want %d", got, threads, want)
		}
	}
	many := before + 5
	first, err := team.New(many, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(many)
	second, err := team.New(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(many + 1)
	first.Close()
	first.Close()
	expect(1)
	second.Close()
	expect(0)
}
