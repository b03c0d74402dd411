{{- define "ktrain.podSpec" -}}
serviceAccountName: {{ include "ktrain.serviceAccount" . }}
automountServiceAccountToken: true
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ .Values.manager.terminationGracePeriodSeconds }}
{{- with .Values.manager.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: manager
    {{- include "ktrain.container" . | nindent 4 }}
volumes:
  - name: config
    configMap:
      name: {{ include "ktrain.fullname" . }}-config
  {{- if include "ktrain.mountsCertificates" . }}
  - name: webhook-cert
    secret:
      secretName: {{ include "ktrain.secret" . }}
  {{- end }}
  {{- with .Values.manager.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.manager.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- toYaml (omit . "labelSelector") | nindent 4 }}
    labelSelector:
      {{- toYaml (.labelSelector | default (dict "matchLabels" (include "ktrain.selectorLabels" $ | fromYaml))) | nindent 6 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "ktrain.container" -}}
image: {{ include "ktrain.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - --config=/etc/ktrain/config.yaml
  {{- with .Values.manager.args }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
env:
  - name: POD_NAMESPACE
    valueFrom:
      fieldRef:
        apiVersion: v1
        fieldPath: metadata.namespace
  {{- with .Values.manager.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.manager.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  {{- if .Values.webhook.enabled }}
  - name: webhooks
    containerPort: {{ .Values.manager.config.webhook.port }}
    protocol: TCP
  {{- end }}
  {{- with include "ktrain.metricsPort" . }}
  - name: metrics
    containerPort: {{ . }}
    protocol: TCP
  {{- end }}
  {{- with include "ktrain.healthPort" . }}
  - name: health
    containerPort: {{ . }}
    protocol: TCP
  {{- end }}
  - name: status
    containerPort: {{ .Values.manager.config.statusServer.port }}
    protocol: TCP
{{- if include "ktrain.healthPort" . }}
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  initialDelaySeconds: 15
  periodSeconds: 20
  timeoutSeconds: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 10
  timeoutSeconds: 3
{{- end }}
{{- with .Values.manager.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.manager.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.webhook.enabled }}
# API servers may call the webhooks of a pod that is ending until they see that it has left the Service.
lifecycle:
  preStop:
    sleep:
      seconds: 5
{{- end }}
volumeMounts:
  - name: config
    mountPath: /etc/ktrain
    readOnly: true
  {{- if include "ktrain.mountsCertificates" . }}
  - name: webhook-cert
    mountPath: {{ .Values.manager.config.webhook.certDir | default "/tmp/k8s-webhook-server/serving-certs" }}
    readOnly: true
  {{- end }}
  {{- with .Values.manager.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
