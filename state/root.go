package state

import "github.com/go-json-experiment/json/jsontext"

// Root is the state of a host's root channel (schema RootState).
type Root struct {
	Agents         []AgentInfo      `json:"agents"`
	ActiveSessions *int64           `json:"activeSessions,omitzero"`
	Terminals      []TerminalInfo   `json:"terminals,omitzero"`
	Config         *RootConfigState `json:"config,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// AgentInfo describes an agent that a host offers (schema AgentInfo).
type AgentInfo struct {
	Provider           string                      `json:"provider"`
	DisplayName        string                      `json:"displayName"`
	Description        string                      `json:"description"`
	Models             []SessionModelInfo          `json:"models"`
	ProtectedResources []ProtectedResourceMetadata `json:"protectedResources,omitzero"`
	Customizations     []*Customization            `json:"customizations,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// SessionModelInfo describes a model (schema SessionModelInfo).
type SessionModelInfo struct {
	ID               string        `json:"id"`
	Provider         string        `json:"provider"`
	Name             string        `json:"name"`
	MaxContextWindow *int64        `json:"maxContextWindow,omitzero"` // tokens
	SupportsVision   *bool         `json:"supportsVision,omitzero"`
	PolicyState      PolicyState   `json:"policyState,omitzero"`
	ConfigSchema     *ConfigSchema `json:"configSchema,omitzero"`
	Meta             Meta          `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// PolicyState tells whether a model may be used (schema PolicyState).
type PolicyState string

// Values of PolicyState.
const (
	PolicyEnabled      PolicyState = "enabled"
	PolicyDisabled     PolicyState = "disabled"
	PolicyUnconfigured PolicyState = "unconfigured"
)

// ProtectedResourceMetadata tells where a token for an agent comes from (schema
// ProtectedResourceMetadata, after RFC 9728).
type ProtectedResourceMetadata struct {
	Resource                             string   `json:"resource"`
	ResourceName                         *string  `json:"resource_name,omitzero"`
	AuthorizationServers                 []string `json:"authorization_servers,omitzero"`
	JwksURI                              *string  `json:"jwks_uri,omitzero"`
	ScopesSupported                      []string `json:"scopes_supported,omitzero"`
	BearerMethodsSupported               []string `json:"bearer_methods_supported,omitzero"`
	ResourceSigningAlgValuesSupported    []string `json:"resource_signing_alg_values_supported,omitzero"`
	ResourceEncryptionAlgValuesSupported []string `json:"resource_encryption_alg_values_supported,omitzero"`
	ResourceEncryptionEncValuesSupported []string `json:"resource_encryption_enc_values_supported,omitzero"`
	ResourceDocumentation                *string  `json:"resource_documentation,omitzero"`
	ResourcePolicyURI                    *string  `json:"resource_policy_uri,omitzero"`
	ResourceTosURI                       *string  `json:"resource_tos_uri,omitzero"`
	Required                             *bool    `json:"required,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// RootConfigState is a host's configuration (schema RootConfigState).
type RootConfigState struct {
	Schema ConfigSchema              `json:"schema"`
	Values map[string]jsontext.Value `json:"values"`

	Unknown *jsontext.Value `json:",embed"`
}

// ConfigSchema describes a set of values (schema ConfigSchema).
type ConfigSchema struct {
	Type       string                          `json:"type"` // object
	Properties map[string]ConfigPropertySchema `json:"properties"`
	Required   []string                        `json:"required,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ConfigPropertySchema describes one value (schema ConfigPropertySchema). What a
// session's schema adds (SessionConfigPropertySchema) is EnumDynamic and
// SessionMutable.
type ConfigPropertySchema struct {
	Type             string                          `json:"type"` // string, number, boolean, array, object
	Title            string                          `json:"title"`
	Description      *string                         `json:"description,omitzero"`
	Default          jsontext.Value                  `json:"default,omitzero"`
	Enum             []string                        `json:"enum,omitzero"`
	EnumLabels       []string                        `json:"enumLabels,omitzero"`
	EnumDescriptions []string                        `json:"enumDescriptions,omitzero"`
	ReadOnly         *bool                           `json:"readOnly,omitzero"`
	Items            *ConfigPropertySchema           `json:"items,omitzero"`
	Properties       map[string]ConfigPropertySchema `json:"properties,omitzero"`
	Required         []string                        `json:"required,omitzero"`
	EnumDynamic      *bool                           `json:"enumDynamic,omitzero"`
	SessionMutable   *bool                           `json:"sessionMutable,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// TerminalInfo is a terminal in a host's list (schema TerminalInfo).
type TerminalInfo struct {
	Resource string        `json:"resource"`
	Title    string        `json:"title"`
	Claim    TerminalClaim `json:"claim"`
	ExitCode *int64        `json:"exitCode,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// TelemetryCapabilities names the channels of a host's telemetry (schema
// TelemetryCapabilities).
type TelemetryCapabilities struct {
	Logs    *string `json:"logs,omitzero"`
	Traces  *string `json:"traces,omitzero"`
	Metrics *string `json:"metrics,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}
