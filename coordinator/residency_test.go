package coordinator

import "testing"

func TestParseResidency(t *testing.T) {
	t.Parallel()
	if r, err := ParseResidency("observed"); err != nil || r.set {
		t.Errorf("observed: %+v %v", r, err)
	}
	r, err := ParseResidency("0, 3")
	if err != nil || !r.set || !r.Resident(5, 3) || r.Resident(5, 1) {
		t.Errorf("0, 3: %+v %v", r, err)
	}
	if err := r.check(4); err != nil {
		t.Error(err)
	}
	if err := r.check(3); err == nil {
		t.Error("expert 3 of a model with 3 was taken")
	}
	if r, err := ParseResidency("none"); err != nil || !r.set || r.Resident(0, 0) {
		t.Errorf("none: %+v %v", r, err)
	}
	for _, bad := range []string{"", "all", "1,,2", "-1", "1.5"} {
		if _, err := ParseResidency(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
