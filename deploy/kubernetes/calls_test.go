package kubernetes

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// settings are what the base gives a service.
func settings(t *testing.T, service string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("base", "config", service+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	if err := yaml.Unmarshal(raw, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// targets are the services of ours that a service calls, each with its port.
func targets(t *testing.T, service string) map[string]int32 {
	t.Helper()
	found := map[string]int32{}
	for key, value := range settings(t, service) {
		section, _ := value.(map[string]any)
		target, _ := section["target"].(string)
		if target == "" {
			continue
		}
		host, port, err := net.SplitHostPort(strings.TrimPrefix(target, "dns:///"))
		number, _ := strconv.ParseInt(port, 10, 32)
		if err != nil || number == 0 {
			t.Fatalf("%s.target of %s is %q", key, service, target)
		}
		found[host] = int32(number)
	}
	return found
}

// TestEachServiceIsReachedByItsCallersAlone follows the targets in the settings: each must lead to a service on that port, and
// the network policy there must let in those callers and nobody else.
func TestEachServiceIsReachedByItsCallersAlone(t *testing.T) {
	objects := render(t, "base")
	callers := map[string][]string{}
	for _, one := range workloads(objects) {
		for host, port := range targets(t, one.name) {
			if !listens(of[*corev1.Service](objects), host, port) {
				t.Errorf("%s calls %s:%d, where no service is", one.name, host, port)
			}
			callers[host] = append(callers[host], one.name)
		}
	}
	for called, want := range callers {
		slices.Sort(want)
		if got := admitted(t, objects, called); !slices.Equal(got, want) {
			t.Errorf("%s lets in %v, and is called by %v", called, got, want)
		}
	}
}

func listens(services []*corev1.Service, name string, port int32) bool {
	return slices.ContainsFunc(services, func(service *corev1.Service) bool {
		return service.Name == name && slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port && p.Name == "grpc" })
	})
}

// admitted are the services that the network policy of one lets in on its gRPC port.
func admitted(t *testing.T, objects []runtime.Object, called string) []string {
	t.Helper()
	found := map[string]bool{}
	for _, rule := range policyOf(t, objects, called).Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) != 1 || rule.Ports[0].Port.StrVal != "grpc" {
			t.Fatalf("the network policy of %s lets in everybody, or on other ports than grpc", called)
		}
		for _, peer := range rule.From {
			selector, err := metav1.LabelSelectorAsSelector(peer.PodSelector)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range workloads(objects) {
				if selector.Matches(labels.Set(one.template.Labels)) {
					found[one.name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func policyOf(t *testing.T, objects []runtime.Object, called string) *networkingv1.NetworkPolicy {
	t.Helper()
	policies := of[*networkingv1.NetworkPolicy](objects)
	at := slices.IndexFunc(policies, func(policy *networkingv1.NetworkPolicy) bool {
		return policy.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"] == called
	})
	if at < 0 {
		t.Fatalf("no network policy for %s: every pod reaches it", called)
	}
	return policies[at]
}

// TestI9_TheBaseLeavesOnlineToItsPresentWriter makes sure that nobody goes live by applying the base: the legacy writer may still
// be on.
func TestI9_TheBaseLeavesOnlineToItsPresentWriter(t *testing.T) {
	if mode := settings(t, "availability")["mode"]; mode != "observe" {
		t.Errorf("the base sets mode %v; only an overlay may set own", mode)
	}
}

// TestSecretsAreDescribed compares the keys that the settings name, in each Secret that is mounted, with the table in the README, by
// which Secrets are made.
func TestSecretsAreDescribed(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range workloads(render(t, "base")) {
		raw, err := os.ReadFile(filepath.Join("base", "config", one.name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for name, path := range mountedSecrets(one.template.Spec) {
			named := map[string]bool{}
			for _, key := range regexp.MustCompile(regexp.QuoteMeta(path)+`/([\w.-]+)`).FindAllSubmatch(raw, -1) {
				named[string(key[1])] = true
			}
			described := map[string]bool{}
			if row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| (.*) \\|$").FindSubmatch(readme); row != nil {
				for _, key := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(row[1], -1) {
					described[string(key[1])] = true
				}
			}
			if len(named) == 0 || !maps.Equal(described, named) {
				t.Errorf("%s: the README has %v, the settings %v", name, slices.Sorted(maps.Keys(described)), slices.Sorted(maps.Keys(named)))
			}
		}
	}
}

// mountedSecrets are where the Secrets of a pod are found, by name.
func mountedSecrets(pod corev1.PodSpec) map[string]string {
	found := map[string]string{}
	for _, volume := range pod.Volumes {
		for _, mount := range pod.Containers[0].VolumeMounts {
			if volume.Secret != nil && mount.Name == volume.Name {
				found[volume.Secret.SecretName] = mount.MountPath
			}
		}
	}
	return found
}
