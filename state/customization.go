package state

import "github.com/go-json-experiment/json/jsontext"

// Customization is something that adds to an agent: a container, which is a
// plugin or a directory (schema Customization), or a child of one, which is an
// agent, a skill, a prompt, a rule, a hook or an MCP server (schema
// ChildCustomization). Type decides which fields have a meaning.
type Customization struct {
	Type  string     `json:"type"` // plugin, directory, agent, skill, prompt, rule, hook, mcpServer
	ID    string     `json:"id"`
	URI   string     `json:"uri"`
	Name  string     `json:"name"`
	Icons []Icon     `json:"icons,omitzero"`
	Range *TextRange `json:"range,omitzero"`

	// Of containers.
	Enabled  *bool                   `json:"enabled,omitzero"`
	ClientID *string                 `json:"clientId,omitzero"`
	Load     *CustomizationLoadState `json:"load,omitzero"`
	Children []*Customization        `json:"children,omitzero"`
	Nonce    *string                 `json:"nonce,omitzero"`    // a client's plugin
	Contents string                  `json:"contents,omitzero"` // directory: the type of its children
	Writable *bool                   `json:"writable,omitzero"` // directory

	// Of children.
	Description            *string  `json:"description,omitzero"`            // agent, skill, prompt, rule
	DisableModelInvocation *bool    `json:"disableModelInvocation,omitzero"` // skill
	AlwaysApply            *bool    `json:"alwaysApply,omitzero"`            // rule
	Globs                  []string `json:"globs,omitzero"`                  // rule
	Meta                   Meta     `json:"_meta,omitzero"`                  // agent

	Unknown *jsontext.Value `json:",embed"`
}

// CustomizationLoadState tells how far a container is loaded (schema
// CustomizationLoadState).
type CustomizationLoadState struct {
	Kind    string  `json:"kind"`             // loading, loaded, degraded, error
	Message *string `json:"message,omitzero"` // degraded, error

	Unknown *jsontext.Value `json:",embed"`
}

// Icon is a picture (schema Icon). Src may lead anywhere: do not fetch it.
type Icon struct {
	Src         string   `json:"src"`
	ContentType *string  `json:"contentType,omitzero"`
	Sizes       []string `json:"sizes,omitzero"`
	Theme       string   `json:"theme,omitzero"` // light, dark

	Unknown *jsontext.Value `json:",embed"`
}
