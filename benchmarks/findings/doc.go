// Package findings runs clients and servers that people use against the semel test kit. docs/findings.md has the results.
package findings
