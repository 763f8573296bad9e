package kubernetes

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policy checks that a NetworkPolicy selects pods and that the ports that it names are ports of those.
func (m *Manifests) policy(p *networkingv1.NetworkPolicy) (problems []string) {
	found := false
	for _, w := range m.workloads() {
		if !matches(&p.Spec.PodSelector, w.template.Labels) {
			continue
		}
		found = true
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if !podHasPort(&w.template.Spec, *port.Port) {
					problems = append(problems, fmt.Sprintf("NetworkPolicy %s: port %s is none of %s", p.Name, port.Port.String(), w.name))
				}
			}
		}
	}
	if !found {
		problems = append(problems, fmt.Sprintf("NetworkPolicy %s selects nothing", p.Name))
	}
	return problems
}

// Reaches says whether the policies let pods with one set of labels open connections to a port of pods with another, in the same namespace.
func (m *Manifests) Reaches(from, to map[string]string, port string) bool {
	out := m.allowed(from, to, port, networkingv1.PolicyTypeEgress)
	in := m.allowed(to, from, port, networkingv1.PolicyTypeIngress)
	return out && in
}

// allowed says whether the policies of one side let it speak with the other.
func (m *Manifests) allowed(here, there map[string]string, port string, direction networkingv1.PolicyType) bool {
	restricted := false
	for _, p := range m.Policies {
		if !matches(&p.Spec.PodSelector, here) {
			continue
		}
		for _, t := range p.Spec.PolicyTypes {
			restricted = restricted || t == direction
		}
		if direction == networkingv1.PolicyTypeIngress {
			for _, rule := range p.Spec.Ingress {
				if peers(rule.From, there) && ports(rule.Ports, port) {
					return true
				}
			}
		} else {
			for _, rule := range p.Spec.Egress {
				if peers(rule.To, there) && ports(rule.Ports, port) {
					return true
				}
			}
		}
	}
	return !restricted
}

func peers(all []networkingv1.NetworkPolicyPeer, pod map[string]string) bool {
	for _, peer := range all {
		if peer.NamespaceSelector == nil && peer.PodSelector != nil && matches((*metav1.LabelSelector)(peer.PodSelector), pod) {
			return true
		}
	}
	return len(all) == 0
}

func ports(all []networkingv1.NetworkPolicyPort, port string) bool {
	for _, p := range all {
		if p.Port != nil && p.Port.String() == port {
			return true
		}
	}
	return len(all) == 0
}
