package kubernetes

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/moepool/moepool/deploy/check/flags"
)

// replicas is how many pods each StatefulSet has.
const replicas = 3

// Verify gives everything that is wrong with the objects as a whole.
func Verify(m *Manifests) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, w := range m.workloads() {
		if !selects(w.selector, w.template.Labels) {
			say("%s: its selector doesn't select its own pods", w.name)
		}
		pod := &w.template.Spec
		if m.Accounts[pod.ServiceAccountName] == nil {
			say("%s: service account %q does not exist", w.name, pod.ServiceAccountName)
		}
		if w.service != "" && !m.headless(w.service, w.template.Labels) {
			say("%s: no headless service %q that selects its pods", w.name, w.service)
		}
		if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil {
			say("%s: may run as root or without a system call filter", w.name)
		}
		if !m.disruptable(w.template.Labels) {
			say("%s: no PodDisruptionBudget selects its pods", w.name)
		}
		volumes := map[string]*corev1.Volume{}
		for i := range pod.Volumes {
			volumes[pod.Volumes[i].Name] = &pod.Volumes[i]
			problems = append(problems, m.volume(w.name, &pod.Volumes[i])...)
		}
		for i := range w.claims {
			volumes[w.claims[i].Name] = &corev1.Volume{}
		}
		for i := range pod.Containers {
			problems = append(problems, m.container(w.name, pod, &pod.Containers[i], volumes)...)
		}
	}
	for _, s := range m.Services {
		problems = append(problems, m.service(s)...)
	}
	for _, p := range m.Policies {
		problems = append(problems, m.policy(p)...)
	}
	return problems
}

func (m *Manifests) container(where string, pod *corev1.PodSpec, c *corev1.Container, volumes map[string]*corev1.Volume) (problems []string) {
	say := func(format string, args ...any) {
		problems = append(problems, where+": container "+c.Name+": "+fmt.Sprintf(format, args...))
	}
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		request, limit := c.Resources.Requests[r], c.Resources.Limits[r]
		if request.IsZero() || request.Cmp(limit) != 0 {
			say("%s: request %s and limit %s: not Guaranteed", r, request.String(), limit.String())
		}
		if r == corev1.ResourceCPU && limit.MilliValue()%1000 != 0 {
			say("%s CPUs: the static CPU manager gives whole ones only", limit.String())
		}
	}
	if s := c.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
		s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.Capabilities == nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
		say("not confined")
	}
	if _, tag, tagged := strings.Cut(path.Base(c.Image), ":"); !tagged || tag == "latest" {
		say("image %s has no version", c.Image)
	}
	mounted := map[string]*corev1.Volume{}
	for _, v := range c.VolumeMounts {
		if volumes[v.Name] == nil {
			say("volume %s does not exist", v.Name)
		}
		mounted[v.MountPath] = volumes[v.Name]
	}
	variables := map[string]string{}
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef == nil || m.ConfigMaps[from.ConfigMapRef.Name] == nil {
			say("its variables come from a ConfigMap that does not exist: %+v", from)
			continue
		}
		for name, value := range m.ConfigMaps[from.ConfigMapRef.Name].Data {
			variables[name] = value
		}
	}
	for _, v := range c.Env {
		variables[v.Name] = v.Value
	}
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p != nil && (p.HTTPGet == nil || !hasPort(c, p.HTTPGet.Port)) {
			say("a probe asks for a port that the container doesn't name")
		}
	}
	if c.Name == "nats" {
		return problems
	}
	if c.SecurityContext == nil || c.SecurityContext.Capabilities == nil || len(c.SecurityContext.Capabilities.Add) != 1 || c.SecurityContext.Capabilities.Add[0] != "SYS_NICE" {
		say("needs the capability SYS_NICE, and no other, to bind memory")
	}
	if err := flags.Check(c.Args); err != nil {
		say("%v", err)
	}
	for name := range variables {
		if err := flags.CheckVariable(c.Args[0], name); err != nil {
			say("%v", err)
		}
	}
	if c.Args[0] == "worker" && *pod.TerminationGracePeriodSeconds < 70 {
		say("it is killed after %d s, before a drain (60 s) can end", *pod.TerminationGracePeriodSeconds)
	}
	// Files that flags and variables name are mounted.
	for _, word := range append(values(variables), c.Args...) {
		_, file, found := strings.Cut(word, "=")
		if !found {
			file = word
		}
		for ordinal := range replicas {
			file := strings.ReplaceAll(file, "$(POD_NAME)", fmt.Sprintf("%s-%d", strings.TrimPrefix(where, "StatefulSet "), ordinal))
			if strings.HasPrefix(file, "/etc/") && !holds(m, mounted[path.Dir(file)], path.Base(file)) {
				say("%s is not mounted", file)
			}
		}
	}
	return problems
}

// volume checks what a volume refers to.
func (m *Manifests) volume(where string, v *corev1.Volume) (problems []string) {
	switch {
	case v.ConfigMap != nil && m.ConfigMaps[v.ConfigMap.Name] == nil:
		problems = append(problems, fmt.Sprintf("%s: ConfigMap %s does not exist", where, v.ConfigMap.Name))
	case v.Secret != nil && m.Secrets[v.Secret.SecretName] == nil:
		problems = append(problems, fmt.Sprintf("%s: Secret %s does not exist", where, v.Secret.SecretName))
	case v.Secret != nil:
		problems = m.items(where, v.Secret.SecretName, v.Secret.Items)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			switch {
			case source.ConfigMap != nil && m.ConfigMaps[source.ConfigMap.Name] == nil:
				problems = append(problems, fmt.Sprintf("%s: ConfigMap %s does not exist", where, source.ConfigMap.Name))
			case source.Secret != nil && m.Secrets[source.Secret.Name] == nil:
				problems = append(problems, fmt.Sprintf("%s: Secret %s does not exist", where, source.Secret.Name))
			case source.Secret != nil:
				problems = append(problems, m.items(where, source.Secret.Name, source.Secret.Items)...)
			}
		}
	case v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil:
		problems = append(problems, fmt.Sprintf("%s: volume %s may fill the host's disk", where, v.Name))
	}
	return problems
}

func (m *Manifests) items(where, secret string, items []corev1.KeyToPath) (problems []string) {
	for _, item := range items {
		if m.Secrets[secret].Data[item.Key] == nil {
			problems = append(problems, fmt.Sprintf("%s: Secret %s has no %s", where, secret, item.Key))
		}
	}
	return problems
}

// holds says whether a volume has a file.
func holds(m *Manifests, v *corev1.Volume, file string) bool {
	switch {
	case v == nil:
		return false
	case v.ConfigMap != nil:
		c := m.ConfigMaps[v.ConfigMap.Name]
		return c != nil && c.Data[file] != ""
	case v.Secret != nil && len(v.Secret.Items) > 0:
		for _, item := range v.Secret.Items {
			if item.Path == file {
				return true
			}
		}
		return false
	case v.Secret != nil:
		s := m.Secrets[v.Secret.SecretName]
		return s != nil && s.Data[file] != nil
	}
	return true
}

func (m *Manifests) service(s *corev1.Service) (problems []string) {
	found := false
	for _, w := range m.workloads() {
		if !selects(s.Spec.Selector, w.template.Labels) {
			continue
		}
		found = true
		for _, p := range s.Spec.Ports {
			if !podHasPort(&w.template.Spec, p.TargetPort) {
				problems = append(problems, fmt.Sprintf("service %s: port %s is none of %s", s.Name, p.TargetPort.String(), w.name))
			}
		}
	}
	if !found {
		problems = append(problems, fmt.Sprintf("service %s selects nothing", s.Name))
	}
	return problems
}

// headless says whether a headless service selects pods with these labels.
func (m *Manifests) headless(name string, pod map[string]string) bool {
	for _, s := range m.Services {
		if s.Name == name {
			return s.Spec.ClusterIP == corev1.ClusterIPNone && s.Spec.PublishNotReadyAddresses && selects(s.Spec.Selector, pod)
		}
	}
	return false
}

func (m *Manifests) disruptable(pod map[string]string) bool {
	for _, b := range m.Budgets {
		if matches(b.Spec.Selector, pod) {
			return true
		}
	}
	return false
}

func selects(selector, pod map[string]string) bool {
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(pod))
}

func matches(selector *metav1.LabelSelector, pod map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(pod))
}

func hasPort(c *corev1.Container, port intstr.IntOrString) bool {
	for _, p := range c.Ports {
		if port.StrVal != "" && p.Name == port.StrVal || port.StrVal == "" && p.ContainerPort == port.IntVal {
			return true
		}
	}
	return false
}

func podHasPort(pod *corev1.PodSpec, port intstr.IntOrString) bool {
	for i := range pod.Containers {
		if hasPort(&pod.Containers[i], port) {
			return true
		}
	}
	return false
}

func values(m map[string]string) (all []string) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}
