package bytesize

import (
	"math"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "1073741824": 1 << 30, "4GiB": 4 << 30, "1.5gib": 3 << 29, "800 MB": 8e8, "60KB": 60000, "7B": 7, " 5MiB ": 5 << 20, "0.5TiB": 1 << 39,
		"9223372036854775807": math.MaxInt64, "2Ki": 2048, "3g": 3e9,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "0GiB", "-1", "GiB", "4GiBs", "nan", "inf", "0x10", "1_000", "1e3", "1e300", "0.5", "8388608TiB", "9223372036854775808", "all"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "4GiB") {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1000: "1000 B", 1024: "1.0 KiB", 10 << 10: "10 KiB", 1500 << 20: "1.5 GiB", 9 << 30: "9.0 GiB", 99 << 30: "99 GiB", 1500 << 30: "1.5 TiB",
		-3 << 20: "-3.0 MiB", math.MaxInt64: "8.0 EiB", math.MinInt64: "-8.0 EiB",
	} {
		if got := Text(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
