package markdown

// These aim at parsers that read twice: what is harmless as it stands and becomes
// something when a browser has built a tree of it, written that out and read it again;
// and at names that a script would look up in the document.
func init() {
	hostile = append(hostile,
		// out of one kind of content into another
		`<svg></p><style><a id="</style><img src=y onerror=alert(2)>">`, `<math></p><style><!--</style><img src=y onerror=alert(2)>-->`,
		`<svg><foreignObject><p><math><annotation-xml encoding="text/html"><img src=y onerror=alert(2)></annotation-xml></math></p></foreignObject></svg>`,
		`<math><mi><svg><desc><table><style><![CDATA[</style><img src=y onerror=alert(2)>]]></style></table></desc></svg></mi></math>`,
		`<form><math><mtext></form><form><mglyph><style></math><img src=y onerror=alert(2)></style></mglyph></form>`,
		`<select><template><style><!--</style><b title="--><img src=y onerror=alert(2)>"></template></select>`,
		`<noembed><p title="</noembed><img src=y onerror=alert(2)>"></p></noembed>`, `<noframes><p title="</noframes><svg onload=alert(2)>"></noframes>`,
		`<xmp><p title="</xmp><img src=y onerror=alert(2)>"></xmp>`, `<listing>&lt;img src=y onerror=alert(2)&gt;</listing>`, `<iframe><p title="</iframe><svg onload=alert(2)>"></iframe>`,
		`<script><!--<script></script><img src=y onerror=alert(2)>--></script>`, `<title><a title="</title><img src=y onerror=alert(2)>">`, `<textarea><b title="</textarea><svg onload=alert(2)>">`,
		`<table><tr><td><svg><title><table><style><img src=y onerror=alert(2)>`, `<svg><p><desc><style>*{}</desc><script>alert(2)</script>`, `<p><svg><use href="data:image/svg+xml,&lt;svg id='x' xmlns='http://www.w3.org/2000/svg'&gt;#x"></use></svg>`,
		`<a><svg><set attributeName=href to=javascript:alert(2)></svg></a>`, `<svg><a xlink:href="javascript:alert(2)"><text y=20>x</text></a></svg>`, `<svg><script href="data:,alert(2)"/></svg>`,
		`<math href="javascript:alert(2)">x</math>`, `<math><maction actiontype="statusline#" xlink:href="javascript:alert(2)">x</maction></math>`,
		`<b></b/onclick=alert(2)><b/><i =x onclick=alert(2)>`, `<img src="x`+"`"+`onerror=alert(2)">`, "<img\x0bsrc=y\x0conerror=alert(2)>", `<img src=y onerror="&#97;lert(2)">`, `<img src=y onerror=&#x0000061lert(2)>`,
		`<div><!-- a -- b --!> <img src=y onerror=alert(2)> -->`, `<!-- <!--> <img src=y onerror=alert(2)> -->`, `<!a foo bar='><img src=y onerror=alert(2)>'>`, `<?xml-stylesheet href="javascript:alert(2)"?>`, `</ onclick=alert(2)>`, `</a onclick=alert(2)>`,
		// names that scripts look up
		`<a id=location href=https://evil.example>x</a>`, `<form id=document name=body><input name=attributes><input name=parentNode></form>`, `<img name=cookie><img name=getElementById>`,
		`<a id=trustedTypes></a><a id=trustedTypes name=createPolicy></a>`, `<iframe name=top srcdoc=x></iframe>`, `<div id=__proto__ class=constructor>x</div>`, `<object id=page></object>`, "# location\n\n## trustedTypes\n\n### __proto__",
		// forms, targets and what loads by itself
		`<button formaction=javascript:alert(2) form=login>x</button>`, `<input type=image src=https://evil.example/x formaction=/logout>`, `<isindex action=javascript:alert(2) type=submit>`, `<a ping=https://evil.example href=https://ok.example>x</a>`,
		`<a target=_top download href=https://ok.example>x</a>`, `<area href=javascript:alert(2)>`, `<body background=https://evil.example/x onpageshow=alert(2)>`, `<table background=https://evil.example/x>`, `<audio src=https://evil.example/x autoplay>`,
		`<picture><source srcset=https://evil.example/x></picture>`, `<link rel=prefetch href=https://evil.example/x>`, `<link rel=modulepreload href=https://evil.example/x>`, `<meta http-equiv=Set-Cookie content=nod=x>`, `<portal src=https://evil.example>`,
		`<marquee onstart=alert(2)>x</marquee>`, `<x contenteditable onbeforeinput=alert(2)>y</x>`, `<x popover onbeforetoggle=alert(2)>y</x><button popovertarget=x>z</button>`, `<dialog open oncancel=alert(2)>x</dialog>`, `<style>@keyframes x{}</style><x style="animation-name:x" onanimationend=alert(2)>`,
		// addresses that are read in another way than they look
		"[a](java\u00adscript:alert(2))", "[a](\u2028javascript:alert(2))", "[a](javascript\u003a//%0aalert(2))", "[a](feed:javascript:alert(2))", "[a](jar:javascript:alert(2)!/)", "[a](https&#58;//ok.example@evil.example)",
		"[a](http\u2236//evil.example)", "[a](https://ok.example\u2044evil.example)", "[a](https:\u200b//ok.example)", "[a](https://ok.example\t/\n)", "[a](ht\ntps://ok.example)", "[a](https://ok.example\\@evil.example)", "[a](https://xn--/)",
		"[a](data&colon;text/html;base64,PHNjcmlwdD4=)", "[a](about:blank)", "[a](chrome://settings)", "[a](ms-settings:x)", "[a](ssh://-oProxyCommand=x)", "[a](unix:/x)", "[a](ws://ok.example)", "[a](javascript:javascript:alert(2))",
		// markdown that is left half way
		"[a](https://ok.example \"", "[a](<https://ok.example", "![a](https://ok.example/x.png \"onerror=\"", "[a]: <javascript:alert(2)\n[a]", "<https://ok.example onclick=alert(2)>", "<https://ok.example\n>", "`<`script`>`", "**<**script**>**", "_<img_ src=y onerror=alert(2)>", "~~<~~svg onload=alert(2)>",
		"[<img src=y onerror=alert(2)>](https://ok.example)", "[a](https://ok.example) {onclick=alert(2)}", "[a](https://ok.example){:target=\"_self\"}", "<div markdown=1>\n[a](javascript:alert(2))\n</div>", "| a |\n|---|\n| <td onclick=alert(2)> |", "- <li onclick=alert(2)>\n  - </ul><script>alert(2)</script>", "> </blockquote><script>alert(2)</script>",
	)
}
