{{/* What the values mean: each answers "true" or nothing. */}}

{{- define "ktrain.namespaced" -}}
{{- if .Values.watchNamespaces -}}true{{- end -}}
{{- end -}}

{{- define "ktrain.runsJobSets" -}}
{{- if eq (.Values.jobset.mode | default (ternary "builtin" "external" .Values.jobset.install)) "builtin" -}}true{{- end -}}
{{- end -}}

{{- define "ktrain.makesCertificates" -}}
{{- if and .Values.webhook.enabled .Values.manager.config.certManagement.enable (not .Values.certManager.enabled) -}}true{{- end -}}
{{- end -}}

{{- define "ktrain.takesReports" -}}
{{- $gates := .Values.manager.config.featureGates | default dict -}}
{{- if ternary $gates.TrainJobStatus $gates.AllAlpha (hasKey $gates "TrainJobStatus") -}}true{{- end -}}
{{- end -}}

{{/* Whether certificates are mounted, because the operator does not make them. */}}
{{- define "ktrain.mountsCertificates" -}}
{{- if and (or .Values.webhook.enabled (include "ktrain.takesReports" .)) (not (include "ktrain.makesCertificates" .)) -}}true{{- end -}}
{{- end -}}

{{- define "ktrain.authorizesMetrics" -}}
{{- $metrics := .Values.manager.config.metrics -}}
{{- if or $metrics.authorize ($metrics.auth | default dict).enabled -}}true{{- end -}}
{{- end -}}

{{- define "ktrain.nativeGangs" -}}
{{- $gates := .Values.manager.config.featureGates | default dict -}}
{{- $beta := ternary $gates.AllBeta true (hasKey $gates "AllBeta") -}}
{{- if ternary $gates.GenericWorkload $beta (hasKey $gates "GenericWorkload") -}}true{{- end -}}
{{- end -}}

{{/* Port of an address like ":8080"; nothing for "0", which switches the server off. */}}
{{- define "ktrain.port" -}}
{{- $port := regexReplaceAll "^.*:" . "" -}}
{{- if ne $port "0" -}}{{ $port }}{{- end -}}
{{- end -}}

{{- define "ktrain.metricsPort" -}}
{{- include "ktrain.port" .Values.manager.config.metrics.bindAddress -}}
{{- end -}}

{{- define "ktrain.healthPort" -}}
{{- include "ktrain.port" .Values.manager.config.health.healthProbeBindAddress -}}
{{- end -}}

{{/* The configuration file: manager.config, and what other values decide. */}}
{{- define "ktrain.configuration" -}}
{{- $config := deepCopy .Values.manager.config -}}
{{- $concurrency := dict -}}
{{- $kinds := dict "trainJob" "TrainJob.trainer.kubeflow.org" "trainingRuntime" "TrainingRuntime.trainer.kubeflow.org" "clusterTrainingRuntime" "ClusterTrainingRuntime.trainer.kubeflow.org" "jobSet" "JobSet.jobset.x-k8s.io" -}}
{{- range $kind, $number := ($config.controller | default dict).groupKindConcurrency -}}
{{- $_ := set $concurrency (get $kinds $kind | default $kind) (int $number) -}}
{{- end -}}
{{- $_ := set $config "controller" (dict "groupKindConcurrency" $concurrency) -}}
{{- $_ := set $config "webhook" (merge (dict "enable" .Values.webhook.enabled) ($config.webhook | default dict)) -}}
{{- $management := dict "webhookServiceName" (include "ktrain.service" .) "webhookSecretName" (include "ktrain.secret" .) -}}
{{- $_ := set $management "enable" (eq (include "ktrain.makesCertificates" .) "true") -}}
{{- $_ := set $config "certManagement" $management -}}
{{- $_ := set $config "jobset" (merge (dict "enable" (eq (include "ktrain.runsJobSets" .) "true")) ($config.jobset | default dict)) -}}
{{- with .Values.watchNamespaces -}}
{{- $_ := set $config "watchNamespaces" . -}}
{{- end -}}
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
{{ toYaml (omit $config "apiVersion" "kind") }}
{{- end -}}
