package check_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestDefaultsRender(t *testing.T) {
	t.Parallel()
	want := []string{
		"ConfigMap oncegate", "Deployment oncegate-receive", "Deployment oncegate-work", "Job oncegate-migrate", "NetworkPolicy oncegate",
		"PodDisruptionBudget oncegate-receive", "PodDisruptionBudget oncegate-work", "Service oncegate", "Service oncegate-admin",
	}
	if got := slices.Sorted(maps.Keys(rendered(t, ""))); !slices.Equal(got, want) {
		t.Errorf("the objects are %q, want %q", got, want)
	}
}

// Every value that people may set is rendered into objects that Kubernetes takes.
func TestOtherValuesRender(t *testing.T) {
	t.Parallel()
	o := rendered(t, `
image: { repository: registry.example/oncegate, tag: "1.2", pullPolicy: Always, pullSecrets: [registry] }
existingSecret: secrets
schema: inbox
config: { listen: { trusted_proxies: [10.0.0.0/8] }, sources: { stripe: { provider: stripe, secrets: [file:/etc/oncegate/secrets/stripe] } } }
receive: { replicas: 5, resources: { limits: { memory: 1Gi, cpu: "2" } } }
service: { type: LoadBalancer, port: 8080, annotations: { example.com/internal: "true" } }
admin: { port: 9000 }
networkPolicy: { adminFrom: [{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: monitoring } } }] }
env: [{ name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector:4318" }, { name: NODE, valueFrom: { fieldRef: { fieldPath: spec.nodeName } } }]
podAnnotations: { prometheus.io/scrape: "true" }
nodeSelector: { pool: webhooks }
tolerations: [{ key: webhooks, operator: Exists, effect: NoSchedule }]
`)
	receive := get[appsv1.Deployment](t, o, "Deployment oncegate-receive")
	pod := receive.Spec.Template.Spec
	if *receive.Spec.Replicas != 5 || pod.Containers[0].Image != "registry.example/oncegate:1.2" || pod.ImagePullSecrets[0].Name != "registry" ||
		pod.NodeSelector["pool"] != "webhooks" || pod.Tolerations[0].Key != "webhooks" || receive.Spec.Template.Annotations["prometheus.io/scrape"] != "true" {
		t.Errorf("the receivers are %+v", receive.Spec)
	}
	if service := get[corev1.Service](t, o, "Service oncegate"); service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.Spec.Ports[0].Port != 8080 || service.Annotations["example.com/internal"] != "true" {
		t.Errorf("the service is %+v", service)
	}
	if from := get[networkingv1.NetworkPolicy](t, o, "NetworkPolicy oncegate").Spec.Ingress[1].From; len(from) != 2 || from[1].NamespaceSelector == nil {
		t.Errorf("the private port is open to %+v", from)
	}
	if _, there := rendered(t, "networkPolicy: { enabled: false }")["NetworkPolicy oncegate"]; there {
		t.Error("the network policy is there although it is off")
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replicas: 3":                                   "replicas",
		"image: { tag: '' }":                            "tag",
		"image: { pullPolicy: Sometimes }":              "pullPolicy",
		"existingSecret: ''":                            "existingSecret",
		"schema: 'Robert; DROP'":                        "schema",
		"receive: { replicas: 0 }":                      "replicas",
		"receive: { replicas: many }":                   "replicas",
		"work: { cpu: 1 }":                              "cpu",
		"drainDelaySeconds: 1":                          "drainDelaySeconds",
		"service: { type: ExternalName }":               "type",
		"service: { port: 70000 }":                      "port",
		"admin: { type: LoadBalancer }":                 "type",
		"config: { database: { url: 'postgres://x' } }": "config",
		"config: { listen: { admin: '0.0.0.0:80' } }":   "listen",
		"networkPolicy: { enabled: 'yes' }":             "enabled",
		"env: [OTEL]":                                   "env",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error about %s", values, err, want)
		}
	}
}

// podSpecs are all pods of the chart.
func podSpecs(t *testing.T, o objects) map[string]corev1.PodSpec {
	t.Helper()
	return map[string]corev1.PodSpec{
		"receive": get[appsv1.Deployment](t, o, "Deployment oncegate-receive").Spec.Template.Spec,
		"work":    get[appsv1.Deployment](t, o, "Deployment oncegate-work").Spec.Template.Spec,
		"migrate": get[batchv1.Job](t, o, "Job oncegate-migrate").Spec.Template.Spec,
	}
}

// What the Pod Security Standard "restricted" asks for (https://kubernetes.io/docs/concepts/security/pod-security-standards/), and a
// root that nobody writes to.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	for name, pod := range podSpecs(t, rendered(t, "")) {
		c, s := pod.Containers[0].SecurityContext, pod.SecurityContext
		if !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem ||
			!slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || c.Capabilities.Add != nil || *pod.AutomountServiceAccountToken || pod.HostNetwork {
			t.Errorf("%s is not restricted: %+v %+v", name, s, c)
		}
		if r := pod.Containers[0].Resources; r.Requests.Cpu().IsZero() || r.Requests.Memory().IsZero() || r.Limits.Memory().IsZero() {
			t.Errorf("%s has the resources %+v", name, r)
		}
	}
}

// The migration runs before the pods, and needs nothing that the chart makes, because that is not there yet.
func TestMigrationIsAHook(t *testing.T) {
	t.Parallel()
	job := get[batchv1.Job](t, rendered(t, ""), "Job oncegate-migrate")
	if got := job.Annotations["helm.sh/hook"]; got != "pre-install,pre-upgrade" {
		t.Errorf("the hook is %q", got)
	}
	for _, v := range job.Spec.Template.Spec.Volumes {
		if v.Secret == nil || v.Secret.SecretName != "oncegate" {
			t.Errorf("the migration needs %+v", v)
		}
	}
}

// A pod reports that it is not ready, the cluster notices, and the pod finishes before it is killed.
func TestPodsDrain(t *testing.T) {
	t.Parallel()
	pods := podSpecs(t, rendered(t, ""))
	for _, name := range []string{"receive", "work"} {
		pod := pods[name]
		c := pod.Containers[0]
		env := map[string]string{}
		for _, e := range c.Env {
			env[e.Name] = e.Value
		}
		delay, err := time.ParseDuration(env["ONCEGATE_DRAIN_DELAY"])
		if err != nil {
			t.Fatal(err)
		}
		drain, err := time.ParseDuration(env["ONCEGATE_DRAIN"])
		if err != nil {
			t.Fatal(err)
		}
		if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace <= delay+drain {
			t.Errorf("%s is killed after %s, and may take %s", name, grace, delay+drain)
		}
		ready := c.ReadinessProbe
		if noticed := time.Duration(ready.FailureThreshold*(ready.PeriodSeconds+ready.TimeoutSeconds)) * time.Second; ready.HTTPGet.Path != "/readyz" || noticed >= delay {
			t.Errorf("the cluster notices after %s at %s, and %s drains for %s", noticed, ready.HTTPGet.Path, name, delay)
		}
		// A database that is down must not have all pods restarted.
		if live := c.LivenessProbe.HTTPGet.Path; live != "/healthz" || c.StartupProbe.HTTPGet.Path != "/healthz" {
			t.Errorf("%s is alive by %s", name, live)
		}
		if want := []string{"serve", "--role", name}; !slices.Equal(c.Args, want) {
			t.Errorf("the arguments are %q, want %q", c.Args, want)
		}
	}
}

// Each selector finds the pods that it is for, and no port is missing there.
func TestSelectorsFindThePods(t *testing.T) {
	t.Parallel()
	o := rendered(t, "")
	for service, want := range map[string]string{"oncegate": "receive", "oncegate-admin": "work"} {
		s := get[corev1.Service](t, o, "Service "+service)
		for _, role := range []string{"receive", "work"} {
			template := get[appsv1.Deployment](t, o, "Deployment oncegate-"+role).Spec.Template
			found := labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(template.Labels))
			if found != (role == want) {
				t.Errorf("%s finds %s: %v", service, role, found)
			}
			named := slices.ContainsFunc(template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == s.Spec.Ports[0].TargetPort.StrVal })
			if found && !named {
				t.Errorf("%s has no port %s", role, s.Spec.Ports[0].TargetPort.StrVal)
			}
		}
	}
	migrate := labels.Set(get[batchv1.Job](t, o, "Job oncegate-migrate").Spec.Template.Labels)
	for _, role := range []string{"receive", "work"} {
		pods := labels.Set(get[appsv1.Deployment](t, o, "Deployment oncegate-"+role).Spec.Template.Labels)
		selector := labels.SelectorFromSet(get[policyv1.PodDisruptionBudget](t, o, "PodDisruptionBudget oncegate-"+role).Spec.Selector.MatchLabels)
		if !selector.Matches(pods) || selector.Matches(migrate) {
			t.Errorf("the budget of %s finds other pods", role)
		}
	}
}

// The notes warn of the value that nobody can choose for everybody.
func TestNotesWarnOfMissingProxies(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{"": true, "config: { listen: { trusted_proxies: [10.0.0.0/8] } }": false} {
		files, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(files["NOTES.txt"], "trusted_proxies is empty"); got != want {
			t.Errorf("%q: the notes warn: %v", values, got)
		}
	}
}
