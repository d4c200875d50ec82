package main

import (
	"encoding/json"
	"fmt"
)

// tool is what the server offers to a model.
type tool struct {
	name, about  string
	input, hints object
	run          func(*server, call) (string, error)
}

// call is what a client says when it uses a tool.
type call struct {
	Name      string `json:"name"`
	Arguments struct {
		Text string `json:"text"`
	} `json:"arguments"`
	Meta struct {
		ProgressToken json.RawMessage `json:"progressToken"` // none: nobody wants to know
	} `json:"_meta"`
}

var (
	nothing = object{"type": "object", "properties": object{}}
	// harmless and harmful decide whether a client has a call approved.
	harmless = object{"readOnlyHint": true, "destructiveHint": false, "openWorldHint": false}
	harmful  = object{"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true}
)

const progressSteps = 5

var tools = []tool{
	{"ask_form", "asks for a form", nothing, harmless, func(s *server, _ call) (string, error) {
		return s.elicit(object{"mode": "form", "message": "Where should the new server run?", "requestedSchema": form})
	}},
	{"ask_url", "asks to open a page", nothing, harmless, func(s *server, _ call) (string, error) {
		return s.elicit(object{"mode": "url", "message": "Log in to the scripted service.", "url": "https://login.example/device?code=NOD-1", "elicitationId": "login-1"})
	}},
	{"count", "counts to five and tells how far it is", nothing, harmless, func(s *server, c call) (string, error) {
		for i := 1; i <= progressSteps && c.Meta.ProgressToken != nil; i++ {
			s.write(object{"method": "notifications/progress", "params": object{
				"progressToken": c.Meta.ProgressToken, "progress": i, "total": progressSteps, "message": fmt.Sprintf("counted to %d", i),
			}})
		}
		return fmt.Sprintf("counted to %d", progressSteps), nil
	}},
	{"write_note", "writes a note", object{
		"type": "object", "properties": object{"text": object{"type": "string"}}, "required": []string{"text"},
	}, harmful, func(_ *server, c call) (string, error) {
		return "noted: " + c.Arguments.Text, nil
	}},
}

// form has a property of every kind that MCP knows.
var form = object{
	"type": "object",
	"properties": object{
		"name":    object{"type": "string", "title": "Name", "description": "What the server is called", "minLength": 2, "maxLength": 20, "default": "green"},
		"email":   object{"type": "string", "title": "Owner", "format": "email"},
		"site":    object{"type": "string", "title": "Home page", "format": "uri"},
		"day":     object{"type": "string", "title": "First day", "format": "date"},
		"at":      object{"type": "string", "title": "Starts at", "format": "date-time"},
		"load":    object{"type": "number", "title": "Load", "minimum": 0, "maximum": 1.5, "default": 0.5},
		"cores":   object{"type": "integer", "title": "Cores", "minimum": 1, "maximum": 64},
		"public":  object{"type": "boolean", "title": "Public", "description": "Anybody may reach it", "default": false},
		"region":  object{"type": "string", "title": "Region", "enum": []string{"north", "south"}, "default": "north"},
		"size":    object{"type": "string", "title": "Size", "oneOf": []object{{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}}},
		"disk":    object{"type": "string", "title": "Disk", "enum": []string{"ssd", "hdd"}, "enumNames": []string{"Fast", "Cheap"}},
		"ports":   object{"type": "array", "title": "Ports", "minItems": 1, "maxItems": 2, "items": object{"type": "string", "enum": []string{"80", "443", "8080"}}},
		"backups": object{"type": "array", "title": "Backups", "items": object{"anyOf": []object{{"const": "d", "title": "Daily"}, {"const": "w", "title": "Weekly"}}}, "default": []string{"d"}},
	},
	"required": []string{"name", "cores", "size"},
}
