// Package kubernetes renders the overlays of deploy/kubernetes with kustomize, decodes each object strictly with the API's own types, and finds what
// a cluster would only find when the objects are used: references to nothing, unlike selectors, flags that the binary doesn't have.
package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Manifests are the objects of an overlay.
type Manifests struct {
	StatefulSets []*appsv1.StatefulSet
	DaemonSets   []*appsv1.DaemonSet
	Services     []*corev1.Service
	ConfigMaps   map[string]*corev1.ConfigMap
	Secrets      map[string]*corev1.Secret
	Accounts     map[string]*corev1.ServiceAccount
	Budgets      []*policyv1.PodDisruptionBudget
	Policies     []*networkingv1.NetworkPolicy
	Namespaces   map[string]*corev1.Namespace
}

// workload is what StatefulSets and DaemonSets have in common.
type workload struct {
	name     string
	template *corev1.PodTemplateSpec
	selector map[string]string
	claims   []corev1.PersistentVolumeClaim
	service  string // of a StatefulSet
}

func (m *Manifests) workloads() (all []workload) {
	for _, s := range m.StatefulSets {
		all = append(all, workload{"StatefulSet " + s.Name, &s.Spec.Template, s.Spec.Selector.MatchLabels, s.Spec.VolumeClaimTemplates, s.Spec.ServiceName})
	}
	for _, d := range m.DaemonSets {
		all = append(all, workload{"DaemonSet " + d.Name, &d.Spec.Template, d.Spec.Selector.MatchLabels, nil, ""})
	}
	return all
}

// Decode reads a stream of YAML documents. Unknown fields, fields given twice and kinds that are not known here are errors.
func Decode(stream []byte) (*Manifests, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	m := &Manifests{
		ConfigMaps: map[string]*corev1.ConfigMap{}, Secrets: map[string]*corev1.Secret{},
		Accounts: map[string]*corev1.ServiceAccount{}, Namespaces: map[string]*corev1.Namespace{},
	}
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(stream)))
	defer documents.Close()
	buffer := make([]byte, 4<<20)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, err
		}
		object, kind, err := decoder.Decode(buffer[:n], nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, buffer[:n])
		}
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			m.StatefulSets = append(m.StatefulSets, o)
		case *appsv1.DaemonSet:
			m.DaemonSets = append(m.DaemonSets, o)
		case *corev1.Service:
			m.Services = append(m.Services, o)
		case *corev1.ConfigMap:
			m.ConfigMaps[o.Name] = o
		case *corev1.Secret:
			m.Secrets[o.Name] = o
		case *corev1.ServiceAccount:
			m.Accounts[o.Name] = o
		case *corev1.Namespace:
			m.Namespaces[o.Name] = o
		case *policyv1.PodDisruptionBudget:
			m.Budgets = append(m.Budgets, o)
		case *networkingv1.NetworkPolicy:
			m.Policies = append(m.Policies, o)
		default:
			return nil, fmt.Errorf("%s: nothing here checks this kind", kind)
		}
	}
}
