// Package rules is the label-rules policy in plain Go: it reads the same YAML files as the product's ready-made
// policy and decides the same, so that the two can be compared.
package rules
