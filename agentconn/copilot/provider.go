package copilot

import (
	"cmp"
	"os"
	"strconv"
	"strings"

	sdk "github.com/github/copilot-sdk/go"
)

// byok is the model provider that the environment names, with the variables of
// `copilot help providers`; nil if it names none. A server does not look at them for
// the sessions of others, and does not store keys, so they are told with each session.
func byok() (p *sdk.ProviderConfig, model string) {
	base := os.Getenv("COPILOT_PROVIDER_BASE_URL")
	if base == "" {
		return nil, ""
	}
	p = &sdk.ProviderConfig{
		BaseURL: base, Type: cmp.Or(os.Getenv("COPILOT_PROVIDER_TYPE"), "openai"), WireAPI: cmp.Or(os.Getenv("COPILOT_PROVIDER_WIRE_API"), "completions"),
		Transport: os.Getenv("COPILOT_PROVIDER_TRANSPORT"), APIKey: os.Getenv("COPILOT_PROVIDER_API_KEY"), BearerToken: os.Getenv("COPILOT_PROVIDER_BEARER_TOKEN"),
		WireModel: os.Getenv("COPILOT_PROVIDER_WIRE_MODEL"), Headers: headers(os.Getenv("COPILOT_PROVIDER_HEADERS")),
	}
	p.MaxPromptTokens, _ = strconv.Atoi(os.Getenv("COPILOT_PROVIDER_MAX_PROMPT_TOKENS")) // 0 where it is no number: as the model has it
	p.MaxOutputTokens, _ = strconv.Atoi(os.Getenv("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"))
	if v := os.Getenv("COPILOT_PROVIDER_AZURE_API_VERSION"); v != "" {
		p.Azure = &sdk.AzureProviderOptions{APIVersion: v}
	}
	return p, cmp.Or(os.Getenv("COPILOT_PROVIDER_MODEL_ID"), os.Getenv("COPILOT_MODEL"))
}

func headers(lines string) map[string]string {
	var out map[string]string
	for line := range strings.Lines(lines) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			if out == nil {
				out = map[string]string{}
			}
			out[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return out
}
