package v1alpha1_test

import (
	"strings"
	"testing"
)

const (
	image = "image: registry.example/web:1\n"
	// least is the smallest spec, as it is stored.
	least = image + "replicas: 1\n"
)

func TestAppService_is_accepted_and_defaulted(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"an image alone gets one replica": {
			spec: image,
			want: image + "replicas: 1",
		},
		"a name of 63 letters": {
			name: strings.Repeat("a", 63),
			spec: image + "replicas: 1",
		},
		"a name of one letter": {
			name: "a",
			spec: image + "replicas: 1",
		},
		"an image of 1024 characters": {
			spec: "image: " + strings.Repeat("a", 1024) + "\nreplicas: 1",
		},
		"an image with a port, a tag and a digest": {
			spec: "image: registry.example:5000/team/web:1.2@sha256:0123\nreplicas: 1",
		},
		"no replicas": {
			spec: image + "replicas: 0",
		},
		"no ports": {
			spec: image + "replicas: 1\nports: []",
		},
		"a port without a name gets TCP": {
			spec: image + "replicas: 1\nports: [{port: 80}]",
			want: image + "replicas: 1\nports: [{port: 80, protocol: TCP}]",
		},
		"ports at the edges": {
			spec: image + `
replicas: 1
ports:
- {name: first, port: 1, targetPort: 65535, protocol: TCP}
- {name: last, port: 65535, targetPort: 1, nodePort: 30000, protocol: SCTP, appProtocol: example.com/x}
`,
		},
		"one port number with two protocols": {
			spec: image + `
replicas: 1
ports:
- {name: dns, port: 53, protocol: UDP}
- {name: dns-tcp, port: 53, protocol: TCP}
`,
		},
		"32 ports": {
			spec: image + "replicas: 1\nports:\n" + ports(32),
		},
		"quantities, as they are written": {
			spec: image + `
replicas: 1
resources:
  requests: {cpu: "0.5", memory: 1024Mi}
  limits: {cpu: 1, memory: 1Gi}
`,
		},
		"the environment": {
			spec: image + `
replicas: 1
env:
- {name: A, value: a}
- {name: B}
- {name: C, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
`,
		},
		"an empty placement": {
			spec: image + "replicas: 1\nplacement: {}",
		},
		"an empty selector": {
			spec: image + "replicas: 1\nplacement: {clusterSelector: {}}",
		},
		"every operator of a selector": {
			spec: image + `
replicas: 1
placement:
  clusterNames: [east, west]
  clusterSelector:
    matchLabels: {tier: prod}
    matchExpressions:
    - {key: a, operator: In, values: [x]}
    - {key: b, operator: NotIn, values: [x]}
    - {key: c, operator: Exists}
    - {key: d, operator: DoesNotExist}
`,
		},
	})
}

func TestAppService_is_refused_with_a_message(t *testing.T) {
	const (
		badName     = "<nil>: Invalid value: metadata.name must be at most 63 lower-case letters, digits and '-', start with a letter, and end with a letter or digit, because each member gets a Service of this name"
		rfc1123     = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
		noImage     = "image must name a container image, such as registry.example/team/app:1.2, without spaces, control characters and letters that are not ASCII"
		badPortName = "a port's name must be lower-case letters, digits and '-', and start and end with a letter or digit"
	)
	testRefused(t, map[string]refused{
		"a name of 64 letters": {
			name: strings.Repeat("a", 64),
			spec: image,
			want: badName,
		},
		"a name that starts with a digit": {
			name: "1web",
			spec: image,
			want: badName,
		},
		"a name with a dot": {
			name: "web.shop",
			spec: image,
			want: badName,
		},
		"a name in upper case": {
			name: "Web",
			spec: image,
			want: `[metadata.name: Invalid value: "Web": ` + rfc1123 + ", " + badName + "]",
		},
		"a name that ends with a dash": {
			name: "web-",
			spec: image,
			want: `[metadata.name: Invalid value: "web-": ` + rfc1123 + ", " + badName + "]",
		},
		"no spec": {
			spec: "",
			want: "[spec: Required value" + unchecked,
		},
		"no image": {
			spec: "replicas: 1",
			want: "[spec.image: Required value" + unchecked,
		},
		"an empty image": {
			spec: `image: ""`,
			want: `spec.image: Invalid value: "": ` + noImage,
		},
		"an image with a space": {
			spec: `image: "a b"`,
			want: `spec.image: Invalid value: "a b": ` + noImage,
		},
		"an image with a space at its end": {
			spec: `image: "a "`,
			want: `spec.image: Invalid value: "a ": ` + noImage,
		},
		"an image with a line break": {
			spec: `image: "a\nb"`,
			want: `spec.image: Invalid value: "a\nb": ` + noImage,
		},
		"an image of 1025 characters": {
			spec: "image: " + strings.Repeat("a", 1025),
			want: "[spec.image: Too long: may not be more than 1024 bytes" + unchecked,
		},
		"negative replicas": {
			spec: image + "replicas: -1",
			want: "[.spec.replicas: Invalid value: -1: should be a non-negative integer, spec.replicas: Invalid value: -1: replicas must be zero or more]",
		},
		"replicas that are not a number": {
			spec: image + "replicas: many",
			want: `[spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string", .spec.replicas: Invalid value: 0: .spec.replicas accessor error: many is of the type string, expected int64` + unchecked,
		},
		"replicas that exceed int32": {
			spec: image + "replicas: 2147483648",
			want: `[<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.replicas, .spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647]`,
		},
		"an unknown field": {
			spec: image + "replica: 1",
			want: `AppService in version "v1alpha1" cannot be handled as a AppService: strict decoding error: unknown field "spec.replica"`,
		},
		"two ports without names": {
			spec: image + "ports: [{port: 80}, {port: 81}]",
			want: "spec.ports: Invalid value: each port needs a name when there is more than one",
		},
		"two ports, one without a name": {
			spec: image + "ports: [{port: 80, name: http}, {port: 81}]",
			want: "spec.ports: Invalid value: each port needs a name when there is more than one",
		},
		"two ports with the same name": {
			spec: image + "ports: [{port: 80, name: http}, {port: 81, name: http}]",
			want: "spec.ports: Invalid value: port names must be unique",
		},
		"two ports with the same number": {
			spec: image + "ports: [{port: 80, name: a}, {port: 80, name: b}]",
			want: `spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP"}`,
		},
		"a port without a number": {
			spec: image + "ports: [{name: http}]",
			want: "[spec.ports[0].port: Required value" + unchecked,
		},
		"port 0": {
			spec: image + "ports: [{port: 0}]",
			want: "spec.ports[0].port: Invalid value: 0: port must be from 1 to 65535",
		},
		"port 65536": {
			spec: image + "ports: [{port: 65536}]",
			want: "spec.ports[0].port: Invalid value: 65536: port must be from 1 to 65535",
		},
		"port 70000": {
			spec: image + "ports: [{port: 70000}]",
			want: "spec.ports[0].port: Invalid value: 70000: port must be from 1 to 65535",
		},
		"targetPort 0": {
			spec: image + "ports: [{port: 80, targetPort: 0}]",
			want: "spec.ports: Invalid value: each targetPort must be from 1 to 65535, or the name of a container's port",
		},
		"targetPort 70000": {
			spec: image + "ports: [{port: 80, targetPort: 70000}]",
			want: "spec.ports: Invalid value: each targetPort must be from 1 to 65535, or the name of a container's port",
		},
		"nodePort 70000": {
			spec: image + "ports: [{port: 80, nodePort: 70000}]",
			want: "spec.ports[0].nodePort: Invalid value: 70000: nodePort must be from 1 to 65535, and in the range of the members, usually 30000 to 32767",
		},
		"an unknown protocol": {
			spec: image + "ports: [{port: 80, protocol: HTTP}]",
			want: `[spec.ports[0].protocol: Unsupported value: "HTTP": supported values: "TCP", "UDP", "SCTP"` + unchecked,
		},
		"a protocol in lower case": {
			spec: image + "ports: [{port: 80, protocol: tcp}]",
			want: `[spec.ports[0].protocol: Unsupported value: "tcp": supported values: "TCP", "UDP", "SCTP"` + unchecked,
		},
		"a port's name in upper case": {
			spec: image + "ports: [{port: 80, name: HTTP}]",
			want: `spec.ports[0].name: Invalid value: "HTTP": ` + badPortName,
		},
		"a port's empty name": {
			spec: image + `ports: [{port: 80, name: ""}]`,
			want: `spec.ports[0].name: Invalid value: "": ` + badPortName,
		},
		"33 ports": {
			spec: image + "ports:\n" + ports(33),
			want: "[spec.ports: Too many: 33: must have at most 32 items" + unchecked,
		},
		"one variable twice": {
			spec: image + "env: [{name: A}, {name: A, value: a}]",
			want: `spec.env[1]: Duplicate value: {"name":"A"}`,
		},
		"a quantity that is a fraction without quotes": {
			spec: image + "resources: {requests: {cpu: 0.5}}",
			want: `[spec.resources.requests.cpu: Invalid value: "number": spec.resources.requests.cpu in body must be of type integer,string: "number", <nil>: Invalid value: "": "spec.resources.requests.cpu" must validate at least one schema (anyOf), spec.resources.requests.cpu: Invalid value: "number": spec.resources.requests.cpu in body must be of type integer: "number", <nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.resources.requests.cpu` + unchecked,
		},
		"a quantity that is not a number": {
			spec: image + "resources: {requests: {cpu: much}}",
			want: `spec.resources.requests.cpu: Invalid value: "much": spec.resources.requests.cpu in body should match '^(\+|-)?(([0-9]{1,18}(\.[0-9]{0,18})?)|(\.[0-9]{1,18}))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$'`,
		},
		"an unknown operator": {
			spec: image + "placement: {clusterSelector: {matchExpressions: [{key: a, operator: Like, values: [x]}]}}",
			want: `[spec.placement.clusterSelector.matchExpressions[0].operator: Unsupported value: "Like": supported values: "In", "NotIn", "Exists", "DoesNotExist"` + unchecked,
		},
		"a cluster named twice": {
			spec: image + "placement: {clusterNames: [east, east]}",
			want: `spec.placement.clusterNames[1]: Duplicate value: "east"`,
		},
	})
}
