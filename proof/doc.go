// Package proof proves the rest of the repository: it lets the real client and the real server meet in random worlds and in
// every small schedule, breaks everything between them, and judges both by a history that is taken at both ends.
package proof
