package kubernetes

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// render builds an overlay as kubectl would, and decodes each object with unknown fields and duplicate keys refused.
func render(t *testing.T, path string) []runtime.Object {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), path)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for _, resource := range resources.Resources() {
		raw, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(raw, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", resource.CurId(), err, raw)
		}
		objects = append(objects, object)
	}
	return objects
}

func of[T runtime.Object](objects []runtime.Object) []T {
	var found []T
	for _, object := range objects {
		if match, ok := object.(T); ok {
			found = append(found, match)
		}
	}
	return found
}

// workload is what runs the replicas of a service.
type workload struct {
	name     string
	replicas int32
	template corev1.PodTemplateSpec
}

// workloads are the services, whatever kind of object runs them.
func workloads(objects []runtime.Object) []workload {
	var found []workload
	for _, one := range of[*appsv1.Deployment](objects) {
		found = append(found, workload{one.Name, *one.Spec.Replicas, one.Spec.Template})
	}
	for _, one := range of[*appsv1.StatefulSet](objects) {
		found = append(found, workload{one.Name, *one.Spec.Replicas, one.Spec.Template})
	}
	return found
}

func TestBaseRendersStrictly(t *testing.T) {
	objects := render(t, "base")
	services := workloads(objects)
	if len(services) != 4 {
		t.Fatalf("expected the four services, got %d", len(services))
	}
	for _, service := range services {
		t.Run(service.name, func(t *testing.T) {
			checkReplicas(t, service, of[*policyv1.PodDisruptionBudget](objects))
			checkPod(t, service.template.Spec)
			checkProbes(t, service.template.Spec.Containers[0])
			checkSelectors(t, service, of[*corev1.Service](objects))
			checkEnd(t, service, of[*corev1.Service](objects))
		})
	}
	jobs := of[*batchv1.Job](objects)
	if len(jobs) != 2 {
		t.Fatalf("expected a migration for each of the two services with a database, got %d jobs", len(jobs))
	}
	for _, job := range jobs {
		t.Run(job.Name, func(t *testing.T) {
			checkPod(t, job.Spec.Template.Spec)
			checkMigration(t, job, services)
		})
	}
}

// checkMigration makes sure that a migration runs the image, the settings and the secrets of the service it is for.
func checkMigration(t *testing.T, job *batchv1.Job, services []workload) {
	migrates, pod := strings.TrimSuffix(job.Name, "-migrate"), job.Spec.Template.Spec
	for _, one := range services {
		if one.name != migrates {
			continue
		}
		service := one.template.Spec
		if pod.Containers[0].Image != service.Containers[0].Image || !reflect.DeepEqual(pod.Volumes, service.Volumes) {
			t.Error("its image or its volumes are not those of the service")
		}
		if !slices.Equal(pod.Containers[0].Args, append([]string{"migrate"}, service.Containers[0].Args...)) {
			t.Errorf("its arguments are %v", pod.Containers[0].Args)
		}
		return
	}
	t.Error("it migrates for no service")
}

// checkReplicas makes sure that an eviction never takes the last replica, and none is blocked for good.
func checkReplicas(t *testing.T, service workload, budgets []*policyv1.PodDisruptionBudget) {
	if service.replicas < 2 {
		t.Errorf("%d replicas; a rollout or an eviction would be an outage", service.replicas)
	}
	for _, budget := range budgets {
		if budget.Name != service.name {
			continue
		}
		if budget.Spec.MaxUnavailable.IntValue() != 1 || budget.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != service.name {
			t.Errorf("its disruption budget does not let exactly one of its pods go")
		}
		return
	}
	t.Error("no disruption budget")
}

func checkPod(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if pod.SecurityContext == nil || pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 {
		t.Error("the pod may run as root")
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the pod gets a cluster token that it does not need")
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("service links would put foreign variables into the environment that settings are read from")
	}
	for _, container := range pod.Containers {
		security := container.SecurityContext
		if security == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
			t.Error("the root file system is writable")
		}
		if security == nil || security.AllowPrivilegeEscalation == nil || *security.AllowPrivilegeEscalation || len(security.Capabilities.Drop) == 0 {
			t.Error("privileges may be raised")
		}
		if container.Resources.Requests.Cpu().IsZero() || container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
			t.Error("requests of CPU and memory, and a limit of memory, are needed")
		}
		checkEnvironment(t, container)
		for _, volume := range pod.Volumes {
			if volume.Secret != nil && (volume.Secret.DefaultMode == nil || *volume.Secret.DefaultMode&0o007 != 0) {
				t.Errorf("secret %s is readable by everybody in the pod", volume.Secret.SecretName)
			}
		}
	}
}

// checkEnvironment makes sure that settings and secrets come by file, but for what differs by replica, which is made of what the cluster
// knows of a pod.
func checkEnvironment(t *testing.T, container corev1.Container) {
	t.Helper()
	if len(container.EnvFrom) > 0 {
		t.Error("whole objects come as environment")
	}
	ofThePod := false
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			ofThePod = ofThePod || strings.Contains(variable.Value, "$(")
			continue
		}
		if field := variable.ValueFrom.FieldRef; field == nil || !strings.HasPrefix(field.FieldPath, "metadata.") {
			t.Errorf("%s is neither a text nor a fact of the pod; secrets come by file", variable.Name)
		}
	}
	if len(container.Env) > 0 && !ofThePod {
		t.Error("settings that are the same for all replicas come by file, not by environment")
	}
}

// checkEnd makes sure that whoever is called serves until callers have heard of its end.
func checkEnd(t *testing.T, one workload, services []*corev1.Service) {
	called := slices.ContainsFunc(services, func(service *corev1.Service) bool { return service.Name == one.name })
	pod := one.template.Spec
	lifecycle := pod.Containers[0].Lifecycle
	if !called {
		return
	}
	if lifecycle == nil || lifecycle.PreStop == nil || lifecycle.PreStop.Sleep == nil || lifecycle.PreStop.Sleep.Seconds < 5 {
		t.Fatal("it ends before its endpoints are gone")
	}
	if *pod.TerminationGracePeriodSeconds < lifecycle.PreStop.Sleep.Seconds+40 {
		t.Errorf("%d s are too short to end in", *pod.TerminationGracePeriodSeconds)
	}
}

func checkProbes(t *testing.T, container corev1.Container) {
	if container.ReadinessProbe == nil || container.ReadinessProbe.GRPC == nil || container.ReadinessProbe.GRPC.Service == nil {
		t.Fatal("readiness must ask the gRPC health service")
	}
	if container.LivenessProbe == nil || container.LivenessProbe.HTTPGet == nil || container.LivenessProbe.HTTPGet.Path != "/livez" {
		t.Fatal("liveness must ask /livez")
	}
	ports := map[int32]bool{}
	for _, port := range container.Ports {
		ports[port.ContainerPort] = true
	}
	if !ports[container.ReadinessProbe.GRPC.Port] {
		t.Errorf("readiness asks port %d, which the container does not have", container.ReadinessProbe.GRPC.Port)
	}
}

func checkSelectors(t *testing.T, one workload, services []*corev1.Service) {
	ports := map[string]bool{}
	for _, port := range one.template.Spec.Containers[0].Ports {
		ports[port.Name] = true
	}
	for _, service := range services {
		if service.Name != one.name {
			continue
		}
		for key, value := range service.Spec.Selector {
			if one.template.Labels[key] != value {
				t.Errorf("service selector %s=%s matches no pod", key, value)
			}
		}
		for _, port := range service.Spec.Ports {
			if !ports[port.TargetPort.StrVal] {
				t.Errorf("service port %s leads to %q, which the container does not have", port.Name, port.TargetPort.String())
			}
		}
		return
	}
	t.Error("no service")
}

// TestStrictDecodingRefuses makes sure that the test above could fail: a misspelt field is an error.
func TestStrictDecodingRefuses(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	_, _, err := decoder.Decode([]byte("apiVersion: apps/v1\nkind: Deployment\nspec: {replica: 2}\n"), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "replica") {
		t.Fatalf("expected the unknown field to be named, got %v", err)
	}
}
