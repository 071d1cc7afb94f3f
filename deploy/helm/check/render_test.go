// Package check_test renders the chart as Helm does, and decodes every object strictly into its type of the API of Kubernetes.
package check_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// render renders the chart with values over its defaults. The error is the schema's or a template's.
func render(text string) (map[string]string, error) {
	loaded, err := loader.LoadDir("../oncegate")
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: "oncegate", Namespace: "webhooks", Revision: 1, IsInstall: true}
	merged, err := chartutil.ToRenderValues(loaded, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(loaded, merged)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for path, content := range files {
		out[filepath.Base(path)] = content
	}
	return out, nil
}

// objects are the rendered objects by kind and name.
type objects map[string]any

// kinds make an empty object of each kind that the chart has.
var kinds = map[string]func() any{
	"apps/v1 Deployment": func() any { return &appsv1.Deployment{} }, "batch/v1 Job": func() any { return &batchv1.Job{} },
	"v1 ConfigMap": func() any { return &corev1.ConfigMap{} }, "v1 Service": func() any { return &corev1.Service{} },
	"policy/v1 PodDisruptionBudget":      func() any { return &policyv1.PodDisruptionBudget{} },
	"networking.k8s.io/v1 NetworkPolicy": func() any { return &networkingv1.NetworkPolicy{} },
}

// decode decodes documents strictly: an unknown or doubled field is an error.
func decode(t *testing.T, text string) objects {
	t.Helper()
	found := objects{}
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var about struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document), &about); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if about.Kind == "" {
			continue // only comments
		}
		empty := kinds[about.APIVersion+" "+about.Kind]
		if empty == nil {
			t.Fatalf("the kind %s %s is unknown", about.APIVersion, about.Kind)
		}
		object := empty()
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatalf("%s %s: %v in\n%s", about.Kind, about.Metadata.Name, err, document)
		}
		found[about.Kind+" "+about.Metadata.Name] = object
	}
	return found
}

// rendered renders and decodes everything but the notes.
func rendered(t *testing.T, values string) objects {
	t.Helper()
	files, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	found := objects{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			maps.Copy(found, decode(t, files[name]))
		}
	}
	return found
}

func get[T any](t *testing.T, o objects, name string) *T {
	t.Helper()
	found, ok := o[name].(*T)
	if !ok {
		t.Fatalf("there is no %s among %v", name, slices.Sorted(maps.Keys(o)))
	}
	return found
}
