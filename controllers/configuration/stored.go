package configuration

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// storedSnapshots are the objects of the hub with the names of snapshots of an AppService.
type storedSnapshots struct {
	// app and owner identify the AppService.
	app     types.NamespacedName
	owner   types.UID
	objects []Snapshot
}

func (in Input) storedSnapshots() storedSnapshots {
	return storedSnapshots{in.App, in.UID, in.Snapshots}
}

// object returns the object with this name and the kind of a source, or nil.
func (o storedSnapshots) object(name string, ref Ref) *Snapshot {
	for i := range o.objects {
		if found := &o.objects[i]; found.Name == name && found.Kind == ref.Kind {
			return found
		}
	}
	return nil
}

// snapshot returns the stored snapshot of a source with this name, or nil.
func (o storedSnapshots) snapshot(name string, ref Ref) *Snapshot {
	if found := o.object(name, ref); found != nil && found.Owner == o.owner {
		return found
	}
	return nil
}

// sizeInUse returns the size of the content that a source has in use.
func (o storedSnapshots) sizeInUse(s *source) int64 {
	if snapshot := o.snapshot(s.last.Snapshot, s.Ref); snapshot != nil {
		return snapshot.Size
	}
	return 0
}

// newest returns the snapshot of a source with the highest serial, or "" and 0.
func (o storedSnapshots) newest(ref Ref) (name string, serial int64) {
	for _, snapshot := range o.objects {
		if snapshot.Ref == ref && snapshot.Owner == o.owner && snapshot.Serial > serial {
			name, serial = snapshot.Name, snapshot.Serial
		}
	}
	return name, serial
}

// isOurs reports whether an object is a snapshot of the AppService: it owns the object, and the name
// of the object is that of its digest.
func (o storedSnapshots) isOurs(snapshot Snapshot) bool {
	return snapshot.Owner == o.owner && snapshot.Digest != Digest{} && snapshot.Name == Name(o.identity(snapshot.Ref), snapshot.Digest)
}

// presentName returns the name of the snapshot of the present content, or "" if it was not read.
func (o storedSnapshots) presentName(s *source) string {
	isNew := s.last.Snapshot == "" || IsAbsent(s.last.Snapshot)
	switch {
	case s.hub.Presence == PresenceAbsent && s.isOptional && isNew:
		return cmp.Or(s.last.Snapshot, AbsentName(o.identity(s.Ref)))
	case s.hub.Presence != PresenceFound, s.hub.Digest == Digest{}:
		return ""
	case s.hub.EqualTo != "" && o.snapshot(s.hub.EqualTo, s.Ref) != nil:
		return s.hub.EqualTo
	}
	return Name(o.identity(s.Ref), s.hub.Digest)
}

func (o storedSnapshots) identity(ref Ref) Identity {
	return Identity{o.app.Namespace, o.app.Name, ref}
}
