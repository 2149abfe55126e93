// Command chart renders the Helm chart in packaging/helm, as "helm template" does, and checks each
// object as an API server of Kubernetes does. An unknown or repeated field, or a value of the wrong
// type, is an error. So is anything that the API server's own validation refuses, after it has put
// in its defaults. The command prints the kinds and names of the objects. It needs no cluster.
//
//	go -C tools/chart run . ../../packaging/helm/cloudprofiler [KEY=VALUE ...]
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "chart: %v\n", err)
		os.Exit(1)
	}
}

// kinds has a new object of each kind that the chart may contain.
var kinds = map[string]func() any{
	"v1/Service":          func() any { return new(corev1.Service) },
	"apps/v1/StatefulSet": func() any { return new(appsv1.StatefulSet) },
	"apps/v1/DaemonSet":   func() any { return new(appsv1.DaemonSet) },
}

func run(path string, settings []string) error {
	values := map[string]any{}
	for _, s := range settings {
		if err := strvals.ParseInto(s, values); err != nil {
			return err
		}
	}
	for _, m := range lint.AllWithKubeVersion(path, values, "release", nil).Messages {
		if m.Severity >= support.WarningSev {
			return fmt.Errorf("lint: %w", m.Err)
		}
	}
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{
		Name: "cp", Namespace: "profiling", IsInstall: true,
	}, nil)
	if err != nil {
		return err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return err
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		for i, text := range strings.Split(files[name], "\n---\n") {
			if err := check(text); err != nil {
				return fmt.Errorf("%s, object %d: %w", name, i+1, err)
			}
		}
	}
	return nil
}

// check decodes an object strictly, and prints its kind and name.
func check(text string) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		return err
	}
	make := kinds[head.APIVersion+"/"+head.Kind]
	if make == nil {
		return fmt.Errorf("kind %q of %q is not known here", head.Kind, head.APIVersion)
	}
	if err := yaml.UnmarshalStrict([]byte(text), make()); err != nil {
		return err
	}
	if err := validate(text); err != nil {
		return fmt.Errorf("%s %s: %w", head.Kind, head.Metadata.Name, err)
	}
	fmt.Printf("%s %s\n", head.Kind, head.Metadata.Name)
	return nil
}

// validate puts in the defaults of the API server, and validates the object as the server validates
// a new object.
func validate(text string) error {
	object, _, err := legacyscheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return err
	}
	object.(metav1.Object).SetNamespace("profiling") // Helm does this
	var wrong field.ErrorList
	switch o := object.(type) {
	case *apps.DaemonSet:
		wrong = appsvalidation.ValidateDaemonSet(o, corevalidation.PodValidationOptions{})
	case *apps.StatefulSet:
		wrong = appsvalidation.ValidateStatefulSet(o, corevalidation.PodValidationOptions{})
	case *core.Service:
		wrong = corevalidation.ValidateServiceCreate(o)
	default:
		return fmt.Errorf("type %T is not known here", o)
	}
	return wrong.ToAggregate()
}
