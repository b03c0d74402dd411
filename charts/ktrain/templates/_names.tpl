{{/* Prefix of the names of objects, as Helm's starter chart makes it; short enough for the suffix of a Service. */}}
{{- define "ktrain.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 44 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 44 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ktrain.manager" -}}
{{ include "ktrain.fullname" . }}-controller-manager
{{- end -}}

{{- define "ktrain.serviceAccount" -}}
{{ .Values.manager.serviceAccount.name | default (include "ktrain.manager" .) }}
{{- end -}}

{{- define "ktrain.service" -}}
{{ .Values.manager.config.certManagement.webhookServiceName | default (include "ktrain.manager" .) }}
{{- end -}}

{{- define "ktrain.secret" -}}
{{ .Values.manager.config.certManagement.webhookSecretName | default (printf "%s-webhook-cert" (include "ktrain.fullname" .)) }}
{{- end -}}

{{/* The same labels as those of Kubeflow Trainer's chart, so that its Deployment can be upgraded. */}}
{{- define "ktrain.selectorLabels" -}}
{{- $name := default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- $labels := dict "app.kubernetes.io/name" $name "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/part-of" "kubeflow" "app.kubernetes.io/component" "manager" -}}
{{- toYaml (merge dict .Values.manager.selectorLabels $labels) -}}
{{- end -}}

{{- define "ktrain.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- /* By which `ktrain doctor` and `ktrain top` find the operator, whatever the names are. */}}
trainer.kubeflow.org/implementation: ktrain
{{ include "ktrain.selectorLabels" . }}
{{- end -}}

{{/*
Metadata of an object. Arguments: root, name; perhaps namespace (false: the object is not in a namespace), and
annotations and labels of this object.
*/}}
{{- define "ktrain.metadata" -}}
{{- $root := .root -}}
{{- /* What selectors look for cannot be changed by labels for all objects: monitors would find nothing. */}}
{{- $labels := merge dict (include "ktrain.selectorLabels" $root | fromYaml) (.labels | default dict) $root.Values.manager.labels $root.Values.commonLabels (include "ktrain.labels" $root | fromYaml) -}}
{{- $annotations := merge dict (.annotations | default dict) $root.Values.commonAnnotations -}}
name: {{ .name }}
{{- if ne (.namespace | toString) "false" }}
namespace: {{ .namespace | default $root.Release.Namespace }}
{{- end }}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Reference to the operator's ServiceAccount, as the subject of a binding. */}}
{{- define "ktrain.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "ktrain.serviceAccount" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* The operator's image. The image of Kubeflow Trainer's chart, as its values have it by default, stands for ours. */}}
{{- define "ktrain.image" -}}
{{- $image := .Values.image -}}
{{- $repository := $image.repository -}}
{{- if eq $repository "kubeflow/trainer/trainer-controller-manager" -}}
{{- $repository = "ktrain/ktrain-operator" -}}
{{- end -}}
{{- $name := ternary $repository (printf "%s/%s" $image.registry $repository) (empty $image.registry) -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default (printf "v%s" .Chart.AppVersion)) -}}
{{- end -}}
{{- end -}}
