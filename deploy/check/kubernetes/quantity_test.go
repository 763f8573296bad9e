package kubernetes

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func quantity(t *testing.T, s string) int64 {
	t.Helper()
	q, err := resource.ParseQuantity(s)
	if err != nil {
		t.Fatal(err)
	}
	return q.Value()
}
