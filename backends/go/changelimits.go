package policy

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1alpha1"
)

// Limits of the contract for changes.
const (
	maxChangeEntries     = 64
	maxChangeReasonBytes = 200
	maxValueBytes        = 256
	maxAffinityEntries   = 1024
	maxAffinityBytes     = 64 << 10
	maxHoldUsers         = 1024
	maxUIDBytes          = 64
	maxPodResponseBytes  = 128 << 10
	// A response about nodes has at most a number of bytes, and more for each node.
	maxNodesResponseBytes   = 64 << 10
	maxResponseBytesPerNode = 1 << 10
)

// changeCheck finds what the contract does not allow in a change. It keeps the first mistake, as the rest of a sentence
// that begins with the change.
type changeCheck struct {
	// declared are the parts that the hook may change.
	declared parts
	// changes is where they are declared.
	changes string
	// entries are those of all maps and lists.
	entries int
	mistake string
}

// podChangeMistake is what is wrong with a change; empty if nothing.
func podChangeMistake(change *v1alpha1.PodChange, hook verb, declared parts) string {
	check := &changeCheck{declared: declared, changes: hook.String() + ".Changes"}
	check.setEntries(ChangedPodLabels, "SetLabels", change.GetSetLabels())
	check.removeKeys(ChangedPodLabels, "RemoveLabels", change.GetRemoveLabels())
	check.setEntries(ChangedPodNodeSelector, "SetNodeSelector", change.GetSetNodeSelector())
	check.removeKeys(ChangedPodNodeSelector, "RemoveNodeSelector", change.GetRemoveNodeSelector())
	check.affinity(change)
	check.tolerations("AddTolerations", change.GetAddTolerations())
	check.tolerations("RemoveTolerations", change.GetRemoveTolerations())
	check.amounts(ChangedPodRequests, "AddRequests", change.GetAddRequests())
	check.count()
	return check.mistake
}

// nodeChangeMistake is the same for a change of nodes.
func nodeChangeMistake(change *v1alpha1.NodeChange, hook verb, declared parts) string {
	check := &changeCheck{declared: declared, changes: hook.String() + ".Changes"}
	check.amounts(ChangedNodeAllocatable, "AddAllocatable", change.GetAddAllocatable())
	if usage := change.GetAddUsage(); usage != nil {
		check.part(ChangedNodeUsage, 1)
		check.amounts(ChangedNodeUsage, "AddUsage", usage.GetRequested())
	}
	check.setEntries(ChangedNodeLabels, "SetLabels", change.GetSetLabels())
	check.removeKeys(ChangedNodeLabels, "RemoveLabels", change.GetRemoveLabels())
	check.taints("AddTaints", change.GetAddTaints())
	check.taints("RemoveTaints", change.GetRemoveTaints())
	check.holds(change.GetHolds())
	check.count()
	return check.mistake
}

func (c *changeCheck) fail(format string, values ...any) {
	if c.mistake == "" {
		c.mistake = fmt.Sprintf(format, values...)
	}
}

// part checks that a part is declared if something of it changes.
func (c *changeCheck) part(part ChangedPart, changes int) {
	if changes > 0 && !c.declared.contains(int32(part)) {
		c.fail("changes %v, which the hook does not declare; add it to %s", part, c.changes)
	}
}

func (c *changeCheck) count() {
	if c.entries > maxChangeEntries {
		c.fail("has %d entries in its maps and lists; expected at most %d", c.entries, maxChangeEntries)
	}
}

func (c *changeCheck) key(field, key string) {
	if key == "" {
		c.fail("has a key of 0 bytes in %s; expected 1 to %d", field, maxKeyBytes)
	}
	c.text(field, "key", key, maxKeyBytes)
}

func (c *changeCheck) value(field, value string) { c.text(field, "value", value, maxValueBytes) }

func (c *changeCheck) text(field, what, text string, most int) {
	if len(text) > most {
		c.fail("has a %s of %d bytes in %s; expected at most %d", what, len(text), field, most)
	}
	if !utf8.ValidString(text) {
		c.fail("has a %s in %s that is not UTF-8", what, field)
	}
}

func (c *changeCheck) setEntries(part ChangedPart, field string, entries map[string]string) {
	c.part(part, len(entries))
	c.entries += len(entries)
	// In order, so that the same mistake has the same text.
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		c.key(field, key)
		c.value(field, entries[key])
	}
}

func (c *changeCheck) removeKeys(part ChangedPart, field string, keys []string) {
	c.part(part, len(keys))
	c.entries += len(keys)
	for _, key := range keys {
		c.key(field, key)
	}
}

func (c *changeCheck) amounts(part ChangedPart, field string, amounts *Resources) {
	c.part(part, proto.Size(amounts))
	c.entries += len(amounts.GetOthers())
	for _, key := range slices.Sorted(maps.Keys(amounts.GetOthers())) {
		c.key(field+".Others", key)
	}
}

func (c *changeCheck) holds(holds []*Hold) {
	c.part(ChangedNodeUsage, len(holds))
	c.entries += len(holds)
	users := 0
	for _, hold := range holds {
		c.amounts(ChangedNodeUsage, "Holds.Resources", hold.GetResources())
		if hold.GetResources() == nil || isNegative(hold.GetResources()) {
			c.fail("has no Resources in Holds, or negative ones")
		}
		for _, user := range hold.GetUsers() {
			users += 1 + len(user.GetAtMost().GetOthers())
			if bytes := len(user.GetUid()); bytes == 0 || bytes > maxUIDBytes {
				c.fail("has a user with a UID of %d bytes in Holds; expected 1 to %d", bytes, maxUIDBytes)
			}
			if isNegative(user.GetAtMost()) {
				c.fail("has a user with a negative AtMost in Holds")
			}
		}
	}
	if users > maxHoldUsers {
		c.fail("has %d users and their other resources in Holds; expected at most %d", users, maxHoldUsers)
	}
}

func isNegative(amounts *Resources) bool {
	named := []int64{amounts.GetMilliCpu(), amounts.GetMemory(), amounts.GetEphemeralStorage(), amounts.GetPods()}
	return slices.Min(slices.AppendSeq(named, maps.Values(amounts.GetOthers()))) < 0
}

func (c *changeCheck) taints(field string, taints []*Taint) {
	c.part(ChangedNodeTaints, len(taints))
	c.entries += len(taints)
	for _, taint := range taints {
		c.key(field, taint.GetKey())
		c.value(field, taint.GetValue())
		c.value(field, taint.GetEffect())
	}
}

// tolerations may have an empty key, which tolerates every taint.
func (c *changeCheck) tolerations(field string, tolerations []*Toleration) {
	c.part(ChangedPodTolerations, len(tolerations))
	c.entries += len(tolerations)
	for _, toleration := range tolerations {
		c.text(field, "key", toleration.GetKey(), maxKeyBytes)
		c.value(field, toleration.GetOperator())
		c.value(field, toleration.GetValue())
		c.value(field, toleration.GetEffect())
	}
}

// affinity has limits of its own.
func (c *changeCheck) affinity(change *v1alpha1.PodChange) {
	affinity := change.GetNodeAffinity()
	if change.GetRemoveNodeAffinity() || affinity != nil {
		c.part(ChangedPodNodeAffinity, 1)
	}
	if change.GetRemoveNodeAffinity() && affinity != nil {
		c.fail("has NodeAffinity and RemoveNodeAffinity; set one")
	}
	terms := slices.Clone(affinity.GetRequired().GetTerms())
	for _, preferred := range affinity.GetPreferred() {
		terms = append(terms, preferred.GetPreference())
	}
	entries := len(terms)
	for _, term := range terms {
		entries += c.requirements(term.GetMatchExpressions()) + c.requirements(term.GetMatchFields())
	}
	if entries > maxAffinityEntries {
		c.fail("has %d terms, requirements and values in NodeAffinity; expected at most %d", entries, maxAffinityEntries)
	}
	if bytes := proto.Size(affinity); bytes > maxAffinityBytes {
		c.fail("has %d bytes in NodeAffinity; expected at most %d", bytes, maxAffinityBytes)
	}
}

// requirements returns how many requirements and values there are.
func (c *changeCheck) requirements(requirements []*v1alpha1.NodeSelectorRequirement) int {
	entries := len(requirements)
	for _, requirement := range requirements {
		c.key("NodeAffinity", requirement.GetKey())
		c.value("NodeAffinity", requirement.GetOperator())
		entries += len(requirement.GetValues())
		for _, value := range requirement.GetValues() {
			c.value("NodeAffinity", value)
		}
	}
	return entries
}
