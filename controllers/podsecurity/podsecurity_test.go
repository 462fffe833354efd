package podsecurity_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
)

const (
	enforce        = "pod-security.kubernetes.io/enforce"
	enforceVersion = "pod-security.kubernetes.io/enforce-version"
)

func at(level v1alpha1.PodSecurityLevel, version string) *v1alpha1.PodSecurity {
	return &v1alpha1.PodSecurity{Level: level, Version: version}
}

// latest is the version of the library, which go.mod has.
func latest(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`k8s\.io/pod-security-admission v0\.(\d+)\.`).FindSubmatch(content)
	if found == nil {
		t.Fatal("go.mod does not have k8s.io/pod-security-admission")
	}
	return "v1." + string(found[1])
}

func TestPolicyOf(t *testing.T) {
	latest := latest(t)
	for name, c := range map[string]struct {
		labels     map[string]string
		unlabelled podsecurity.Level
		want       *v1alpha1.PodSecurity
	}{
		"without a label, the default applies":                 {nil, podsecurity.Baseline, at("baseline", latest)},
		"without a label and a default, everything is allowed": {nil, "", nil},
		"privileged allows everything":                         {nil, podsecurity.Privileged, nil},
		"a label wins over a stricter default":                 {map[string]string{enforce: "privileged"}, podsecurity.Baseline, nil},
		"a label wins over a weaker default":                   {map[string]string{enforce: "restricted"}, podsecurity.Privileged, at("restricted", latest)},
		"a label with its version":                             {map[string]string{enforce: "baseline", enforceVersion: "v1.24"}, podsecurity.Privileged, at("baseline", "v1.24")},
		"the latest version is a number":                       {map[string]string{enforce: "baseline", enforceVersion: "latest"}, "", at("baseline", latest)},
		"a version without a level is of no level":             {map[string]string{enforceVersion: "v1.20"}, podsecurity.Baseline, at("baseline", latest)},
		"other labels demand nothing":                          {map[string]string{"pod-security.kubernetes.io/warn": "restricted", "team": "a"}, "", nil},
		"an unknown level is the strictest":                    {map[string]string{enforce: "paranoid"}, podsecurity.Privileged, at("restricted", latest)},
		"an unknown version is the latest":                     {map[string]string{enforce: "baseline", enforceVersion: "1"}, "", at("baseline", latest)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, podsecurity.PolicyOf(c.labels, c.unlabelled)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefusal_has_the_words_of_the_API_server(t *testing.T) {
	hostProbe := corev1.PodSpec{Containers: []corev1.Container{{Name: "app", LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "10.0.0.1"}}}}}}
	for name, c := range map[string]struct {
		pod  corev1.PodSpec
		want map[string]string // by LEVEL:VERSION; what is missing is allowed
	}{
		"a plain pod": {corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}, map[string]string{
			"restricted:v1.36": `violates PodSecurity "restricted:v1.36": allowPrivilegeEscalation != false (container "app" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "app" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`,
		}},
		"hostNetwork": {corev1.PodSpec{HostNetwork: true}, map[string]string{
			"baseline:v1.36":   `violates PodSecurity "baseline:v1.36": host namespaces (hostNetwork=true)`,
			"baseline:v1.24":   `violates PodSecurity "baseline:v1.24": host namespaces (hostNetwork=true)`,
			"restricted:v1.36": `violates PodSecurity "restricted:v1.36": host namespaces (hostNetwork=true)`,
		}},
		"hostPath and a privileged init container": {corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}},
			Volumes:        []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
		}, map[string]string{
			"baseline:v1.36": `violates PodSecurity "baseline:v1.36": hostPath volumes (volume "root"), privileged (container "init" must not set securityContext.privileged=true)`,
			"baseline:v1.24": `violates PodSecurity "baseline:v1.24": hostPath volumes (volume "root"), privileged (container "init" must not set securityContext.privileged=true)`,
		}},
		"what only a later version forbids": {hostProbe, map[string]string{
			"baseline:v1.36": `violates PodSecurity "baseline:v1.36": probe or lifecycle host (container "app" uses probe or lifecycle host "10.0.0.1")`,
		}},
	} {
		for _, policy := range []v1alpha1.PodSecurity{*at("baseline", "v1.24"), *at("baseline", "v1.36"), *at("restricted", "v1.36")} {
			t.Run(name+", "+string(policy.Level)+" "+policy.Version, func(t *testing.T) {
				want, isForbidden := c.want[string(policy.Level)+":"+policy.Version]
				got := podsecurity.Refusal(&corev1.PodTemplateSpec{Spec: c.pod}, &policy)
				if isForbidden && got != want || got != "" && !isForbidden && policy.Level == "baseline" {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
		t.Run(name+", without a policy", func(t *testing.T) {
			if got := podsecurity.Refusal(&corev1.PodTemplateSpec{Spec: c.pod}, nil); got != "" {
				t.Error(got)
			}
		})
	}
}

func TestRefusal_reads_an_unknown_policy_as_the_strictest(t *testing.T) {
	plain := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	if podsecurity.Refusal(plain, at("paranoid", "next")) == "" {
		t.Error("a pod without any settings is allowed")
	}
}

func TestParseLevel(t *testing.T) {
	for _, level := range []string{"privileged", "baseline", "restricted"} {
		if got, err := podsecurity.ParseLevel(level); err != nil || string(got) != level {
			t.Error(got, err)
		}
	}
	if _, err := podsecurity.ParseLevel("Baseline"); err == nil || err.Error() != `"Baseline" must be one of privileged, baseline, restricted` {
		t.Error(err)
	}
}

func TestDecisive(t *testing.T) {
	for _, c := range []struct {
		isFirst                     bool
		ofRevision, ofPresent, want string
	}{
		{false, "", "", ""},
		{false, "old", "", ""},
		{false, "", "new", ""},
		{false, "old", "new", "old"},
		{true, "", "", ""},
		{true, "old", "", ""},
		{true, "", "new", "new"},
		{true, "old", "new", "new"},
	} {
		if got := podsecurity.Decisive(c.isFirst, c.ofRevision, c.ofPresent); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
