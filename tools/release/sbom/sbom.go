// Package sbom writes which Go modules are in a binary, as an SPDX 2.3 document. The modules are
// those that the linker recorded in the binary, and not those of go.mod.
package sbom

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// Artifact is what a document describes.
type Artifact struct {
	Name    string // of the file or the image
	Version string
	Purpose string // SPDX: ARCHIVE or CONTAINER
	SHA256  string // of the file, or of the image's manifest
	PURL    string // package URL, if there is one
	Created time.Time
	Binary  string    // path of the Go program in it
	Others  []*Module // modules with content in the artifact beside those of the binary
}

// Module is a Go module, or the standard library as stdlib.
type Module struct{ Path, Version string }

// Modules returns the modules of a binary with the standard library, sorted. The first is the main
// module, which has no version.
func Modules(binary string) ([]*Module, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	modules := []*Module{{"stdlib", strings.TrimPrefix(info.GoVersion, "go")}}
	for _, module := range info.Deps {
		modules = append(modules, resolve(module))
	}
	slices.SortFunc(modules, func(a, b *Module) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Insert(modules, 0, &Module{Path: info.Main.Path}), nil
}

// resolve returns a module, or the one that replaces it.
func resolve(module *debug.Module) *Module {
	if module.Replace != nil {
		module = module.Replace
	}
	return &Module{module.Path, module.Version}
}

// Write writes the document of an artifact.
func Write(w io.Writer, artifact Artifact) error {
	modules, err := Modules(artifact.Binary)
	if err != nil {
		return err
	}
	modules[0].Version = artifact.Version
	root := describe("Artifact", artifact.Name, artifact.Version, artifact.PURL)
	root.PrimaryPackagePurpose = artifact.Purpose
	root.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: artifact.SHA256}}
	document := &v2_3.Document{
		SPDXVersion:       v2_3.Version,
		DataLicense:       v2_3.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      artifact.Name,
		DocumentNamespace: "https://github.com/fleetwright/fleetwright/sbom/" + artifact.Name + "/" + artifact.SHA256,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "fleetwright-tools-release"}},
			Created:  artifact.Created.UTC().Format(time.RFC3339),
		},
		Packages:      []*v2_3.Package{root},
		Relationships: []*v2_3.Relationship{relate("DOCUMENT", "DESCRIBES", root.PackageSPDXIdentifier)},
	}
	var main common.ElementID
	for i, module := range slices.Concat(modules, artifact.Others) {
		described := describe(identifier(module), module.Path, module.Version, "pkg:golang/"+module.Path+"@"+module.Version)
		described.PrimaryPackagePurpose = "LIBRARY"
		document.Packages = append(document.Packages, described)
		switch {
		case i == 0:
			main = described.PackageSPDXIdentifier
			described.PrimaryPackagePurpose = "APPLICATION"
			described.PackageLicenseDeclared = "Apache-2.0"
			document.Relationships = append(document.Relationships, relate(root.PackageSPDXIdentifier, "CONTAINS", main))
		case i < len(modules):
			document.Relationships = append(document.Relationships, relate(main, "DEPENDS_ON", described.PackageSPDXIdentifier))
		default:
			document.Relationships = append(document.Relationships, relate(root.PackageSPDXIdentifier, "CONTAINS", described.PackageSPDXIdentifier))
		}
	}
	return json.Write(document, w, json.Indent("  "), json.EscapeHTML(false))
}

// describe returns a package of the document.
func describe(id common.ElementID, name, version, purl string) *v2_3.Package {
	described := &v2_3.Package{
		PackageName:             name,
		PackageSPDXIdentifier:   id,
		PackageVersion:          version,
		PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: "NOASSERTION",
		PackageLicenseDeclared:  "NOASSERTION",
		PackageCopyrightText:    "NOASSERTION",
	}
	if purl != "" {
		described.PackageExternalReferences = []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl,
		}}
	}
	return described
}

// identifier returns the ID of a module, which may have letters, digits, dots and dashes only.
func identifier(module *Module) common.ElementID {
	sum := sha256.Sum256([]byte(module.Path))
	readable := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return r
		}
		return '-'
	}, module.Path)
	return common.ElementID(fmt.Sprintf("Module-%s-%s", readable, hex.EncodeToString(sum[:4])))
}

func relate(a common.ElementID, kind string, b common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{RefA: common.DocElementID{ElementRefID: a}, Relationship: kind, RefB: common.DocElementID{ElementRefID: b}}
}
