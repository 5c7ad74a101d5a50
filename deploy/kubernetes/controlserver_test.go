package kubernetes

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const namespace = "fleet"

// controlServers is the one StatefulSet.
func controlServers(t *testing.T, objects []runtime.Object) *appsv1.StatefulSet {
	t.Helper()
	found := of[*appsv1.StatefulSet](objects)
	if len(found) != 1 || found[0].Name != "heartbeat" {
		t.Fatalf("expected heartbeat alone to be a StatefulSet, got %d", len(found))
	}
	return found[0]
}

var reference = regexp.MustCompile(`\$\(([^)]+)\)`)

// environment is what a replica gets: facts of its pod, and texts in which the variables that come before are filled in.
func environment(t *testing.T, set *appsv1.StatefulSet, ordinal int) map[string]string {
	t.Helper()
	facts := map[string]string{"metadata.name": fmt.Sprintf("%s-%d", set.Name, ordinal), "metadata.namespace": namespace}
	found := map[string]string{}
	for _, variable := range set.Spec.Template.Spec.Containers[0].Env {
		value := variable.Value
		if variable.ValueFrom != nil {
			value = facts[variable.ValueFrom.FieldRef.FieldPath]
		}
		found[variable.Name] = reference.ReplaceAllStringFunc(value, func(text string) string {
			filled, known := found[strings.Trim(text, "$()")]
			if !known {
				t.Errorf("%s uses %s, which does not come before it", variable.Name, text)
			}
			return filled
		})
	}
	return found
}

// TestEachReplicaIsAControlServerOfItsOwn makes sure that no replica is refused for another one's name or endpoint, and that the
// endpoints it gives out lead to it: by the names that the headless Service gives, or by a Service for it alone.
func TestEachReplicaIsAControlServerOfItsOwn(t *testing.T) {
	for path, domain := range map[string]string{"base": "heartbeat.fleet.svc", "examples/agents-outside": "agents.example.com"} {
		t.Run(path, func(t *testing.T) {
			objects := render(t, path)
			set := controlServers(t, objects)
			for ordinal := range int(*set.Spec.Replicas) {
				pod := fmt.Sprintf("heartbeat-%d", ordinal)
				own := environment(t, set, ordinal)
				if got := own["HEARTBEAT_INGRESS_NAME"]; got != pod {
					t.Errorf("%s is named %q", pod, got)
				}
				host, port, err := net.SplitHostPort(own["HEARTBEAT_INGRESS_ADVERTISEDGRPC"])
				if err != nil || host != pod+"."+domain || port != portOf(t, set, "agents-grpc") {
					t.Errorf("%s is reached for gRPC at %s %s: %v", pod, host, port, err)
				}
				rest, err := url.Parse(own["HEARTBEAT_INGRESS_ADVERTISEDREST"])
				if err != nil || rest.Scheme != "https" || rest.Hostname() != host || rest.Port() != portOf(t, set, "agents-rest") {
					t.Errorf("%s is reached for REST at %v: %v", pod, rest, err)
				}
				if path != "base" {
					checkReplicaService(t, of[*corev1.Service](objects), pod, host)
				}
			}
		})
	}
}

// portOf is the port of the container by its name.
func portOf(t *testing.T, set *appsv1.StatefulSet, name string) string {
	t.Helper()
	for _, port := range set.Spec.Template.Spec.Containers[0].Ports {
		if port.Name == name {
			return fmt.Sprint(port.ContainerPort)
		}
	}
	t.Fatalf("no port %s", name)
	return ""
}

// checkReplicaService makes sure that a Service leads to one pod alone, under the name that agents are told.
func checkReplicaService(t *testing.T, services []*corev1.Service, pod, host string) {
	t.Helper()
	at := slices.IndexFunc(services, func(service *corev1.Service) bool { return service.Name == pod })
	if at < 0 {
		t.Fatalf("no Service for %s", pod)
	}
	service := services[at]
	if len(service.Spec.Selector) != 1 || service.Spec.Selector["statefulset.kubernetes.io/pod-name"] != pod {
		t.Errorf("the Service of %s leads to %v", pod, service.Spec.Selector)
	}
	if service.Annotations["external-dns.alpha.kubernetes.io/hostname"] != host {
		t.Errorf("agents are told %s, and the Service is at %v", host, service.Annotations)
	}
	checkAgentPorts(t, service)
}

// checkAgentPorts makes sure that a Service leads to the agents' ports, those that are told to agents, ready or not.
func checkAgentPorts(t *testing.T, service *corev1.Service) {
	t.Helper()
	want := map[string]int32{"agents-grpc": 7422, "agents-rest": 7423}
	for _, port := range service.Spec.Ports {
		if want[port.Name] != port.Port || port.TargetPort.StrVal != port.Name {
			t.Errorf("Service %s: port %s is %d and leads to %s", service.Name, port.Name, port.Port, port.TargetPort.String())
		}
		delete(want, port.Name)
	}
	if len(want) > 0 {
		t.Errorf("Service %s lacks %v", service.Name, want)
	}
	if !service.Spec.PublishNotReadyAddresses {
		t.Errorf("Service %s: a control server without the bus would be out of its agents' reach", service.Name)
	}
}

func TestControlServersKeepTheirNamesAndWaitForNobody(t *testing.T) {
	objects := render(t, "base")
	set := controlServers(t, objects)
	if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Error("one that cannot start would keep the others from starting")
	}
	if set.Spec.MinReadySeconds == 0 {
		t.Error("a rollout would take the next one before agents have settled")
	}
	services := of[*corev1.Service](objects)
	at := slices.IndexFunc(services, func(service *corev1.Service) bool { return service.Name == set.Spec.ServiceName })
	if at < 0 || services[at].Spec.ClusterIP != corev1.ClusterIPNone {
		t.Fatal("no headless Service gives the replicas their names")
	}
	checkAgentPorts(t, services[at])
}

// TestAControlServerHasTheTimeToStop adds up what may come after one another: the sleep, leaving the cloud (3 s), telling agents to go,
// calls under way on two listeners (15 s each), and the ingest (25 s).
func TestAControlServerHasTheTimeToStop(t *testing.T) {
	pod := controlServers(t, render(t, "base")).Spec.Template.Spec
	ingress, _ := settings(t, "heartbeat")["ingress"].(map[string]any)
	text, _ := ingress["drainTimeout"].(string)
	drain, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	need := time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds)*time.Second + 3*time.Second + drain + 2*15*time.Second + 25*time.Second
	if has := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; has < need {
		t.Errorf("it is killed after %s, and may need %s", has, need)
	}
}

// TestAgentsReachTheirPortsAlone makes sure that what everybody may call are the listeners for agents, which ask for TLS and a key, and
// nothing else of a control server.
func TestAgentsReachTheirPortsAlone(t *testing.T) {
	objects := render(t, "base")
	set := controlServers(t, objects)
	rules := policyOf(t, objects, "heartbeat").Spec.Ingress
	if len(rules) != 1 || len(rules[0].From) > 0 {
		t.Fatalf("expected one rule, for everybody, got %v", rules)
	}
	var open []string
	for _, port := range rules[0].Ports {
		open = append(open, port.Port.StrVal)
	}
	if !slices.Equal(open, []string{"agents-grpc", "agents-rest"}) {
		t.Fatalf("everybody may call %v", open)
	}
	ingress, _ := settings(t, "heartbeat")["ingress"].(map[string]any)
	for section, name := range map[string]string{"grpc": "agents-grpc", "rest": "agents-rest"} {
		listener, _ := ingress[section].(map[string]any)
		certificate, _ := listener["tls"].(map[string]any)
		if listener["listen"] != "0.0.0.0:"+portOf(t, set, name) || certificate["certFile"] == nil || listener["plaintext"] != nil {
			t.Errorf("ingress.%s is %v", section, listener)
		}
	}
	if ingress["enrolmentKeyFile"] == nil {
		t.Error("agents enrol without a key")
	}
}
