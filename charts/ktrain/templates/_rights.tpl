{{/*
The rules that the operator needs, of files/rights.yaml, as the rules of a role. Arguments: root, scopes (a list of
cluster, watched, own), perhaps feature (only the rules of this one) and without (features whose rules are left out).
*/}}
{{- define "ktrain.rules" -}}
{{- $root := .root -}}
{{- $features := include "ktrain.features" $root | fromYamlArray -}}
{{- $rules := list -}}
{{- range $root.Files.Get "files/rights.yaml" | fromYamlArray -}}
{{- $plugin := hasPrefix "plugin:" .feature -}}
{{- $wanted := or (has .feature $features) (and $plugin (not (has (trimPrefix "plugin:" .feature) $root.Values.rbac.excludePlugins))) -}}
{{- if and $wanted (has .scope $.scopes) (or (not $.feature) (eq .feature ($.feature | default ""))) (not (has .feature ($.without | default list))) -}}
{{- $rule := pick . "apiGroups" "resources" "verbs" "resourceNames" -}}
{{- if and (eq .feature "certManagement") (has "secrets" .resources) .resourceNames -}}
{{- $rule = merge (dict "resourceNames" (list (include "ktrain.secret" $root))) $rule -}}
{{- end -}}
{{- if and (eq .feature "leaderElection") .resourceNames -}}
{{- $rule = merge (dict "resourceNames" (list $root.Values.manager.config.leaderElection.resourceName)) $rule -}}
{{- end -}}
{{- if not (has $rule $rules) -}}
{{- $rules = append $rules $rule }}
{{ printf "# %s" .reason }}
- {{ toYaml $rule | nindent 2 | trim }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The features whose rights are needed with these values. */}}
{{- define "ktrain.features" -}}
- ""
{{- if eq (.Values.manager.config.snapshots | default "perJob") "shared" }}
- sharedSnapshots
{{- end }}
{{- if .Values.manager.config.leaderElection.leaderElect }}
- leaderElection
{{- end }}
{{- if include "ktrain.makesCertificates" . }}
- certManagement
{{- if include "ktrain.runsJobSets" . }}
- jobsetCertificates
{{- end }}
{{- end }}
{{- if include "ktrain.takesReports" . }}
- statusServer
{{- end }}
{{- if include "ktrain.runsJobSets" . }}
- jobset
{{- end }}
{{- if include "ktrain.authorizesMetrics" . }}
- metricsAuth
{{- end }}
{{- if include "ktrain.nativeGangs" . }}
- genericWorkload
{{- end }}
{{- end -}}
